import { afterAll, beforeAll, expect, test } from 'vitest'
import { openOwnShop } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, call, charge, openShop, payByCard, readOrder, type Till } from '../support/till.ts'

let service: TestService
let till: Till
beforeAll(async () => {
  service = await startTestService()
  till = await openShop(service, 'acme', '1806')
})
afterAll(() => service.stop())

/** Three Unicode forms of one text that look equal: composed, decomposed, and half of each. */
function formsOf(text: string): { nfc: string; nfd: string; mixed: string } {
  const nfc = text.normalize('NFC')
  const nfd = text.normalize('NFD')
  const middle = nfc.indexOf('ñ') + 1
  return { nfc, nfd, mixed: nfc.slice(0, middle) + nfc.slice(middle).normalize('NFD') }
}

const all = ['nfc', 'nfd', 'mixed'] as const
const pairs = all.flatMap((one) =>
  all.flatMap((other) => (one === other ? [] : ([[one, other]] as const))),
)

test.each(pairs)(
  'a reference paid in one Unicode form (%s) is not charged again in another (%s)',
  async (one, other) => {
    const texts = formsOf(`Señal Peón ${one} ${other}`)
    const before = service.sandbox.ledger().orders.length
    const first = await charge(service, till, { reference: texts[one] })
    expect(first.statusCode).toBe(201)
    const orderId = first.json().order_id
    const open = await charge(service, till, { reference: texts[other] })
    expect([open.statusCode, open.json().order_id]).toEqual([200, orderId])

    await act(service, orderId, payByCard)
    const paid = await readOrder(service, till, orderId)
    // The answer has the text as the ERP wrote it.
    expect(paid.json()).toMatchObject({ status: 'processed', external_reference: texts[one] })
    const again = await charge(service, till, { reference: texts[other] })
    expect([again.statusCode, again.json()]).toEqual([
      409,
      expect.objectContaining({
        code: 'ORDER_ALREADY_PAID',
        outcome: 'charged',
        order_id: orderId,
      }),
    ])
    expect(service.sandbox.ledger().orders).toHaveLength(before + 1)

    const list = await call(service, {
      url: `/orders?external_reference=${encodeURIComponent(texts[other])}`,
      token: till.key,
    })
    expect(list.json().orders.map((order: { order_id: string }) => order.order_id)).toEqual([
      orderId,
    ])
  },
)

test('another Unicode form under the same Idempotency-Key is the same request', async () => {
  const till = await openOwnShop(service, 'same key')
  const { nfc, nfd } = formsOf('Señor 1')
  const headers = { 'idempotency-key': 'K-1' }
  const first = await charge(service, till, { reference: nfc, headers })
  const second = await charge(service, till, { reference: nfd, headers })
  expect([second.statusCode, second.json().order_id]).toEqual([200, first.json().order_id])
})

test('T26: different texts that look alike stay different sales', async () => {
  const till = await openOwnShop(service, 'look alike')
  const first = await charge(service, till, { reference: 'Señor 2', amount: '7,00' })
  await act(service, first.json().order_id, payByCard)
  await readOrder(service, till, first.json().order_id)
  const other = await charge(service, till, { reference: 'Senor 2', amount: '7,00' })
  expect(other.statusCode).toBe(201)
  expect(other.json().order_id).not.toBe(first.json().order_id)
})
