import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { sell, typeCharge, watchAfter } from '../closings/shop-day.ts'
import { openOwnShop, retireShops } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, call, payByCard, type Till } from '../support/till.ts'
import { openHttpReceiver, openMailReceiver } from './receivers.ts'

/** An unclaimed payment is notified once within ten minutes, and once more when it is settled. */
let service: TestService
let hook: Awaited<ReturnType<typeof openHttpReceiver>>
let smtp: Awaited<ReturnType<typeof openMailReceiver>>

beforeAll(async () => {
  hook = await openHttpReceiver()
  smtp = await openMailReceiver()
  service = await startTestService({
    env: {
      ALERT_MAIL_TO: 'jefa@shop.example',
      ALERT_WEBHOOK_URL: hook.url,
      ALERT_PRIVATE_NETWORK: 'true',
      ALERT_LANGUAGE: 'es',
      ALERT_QUIET_HOURS: '02:00-03:00 UTC',
      SMTP_URL: smtp.url,
      MAIL_FROM: 'alerts@shop.example',
    },
  })
  // Far from the quiet hour, whenever this runs.
  service.clock.advance(msUntil(12))
})
beforeEach(() => {
  hook.reset()
  smtp.mails.length = 0
})
afterEach(() => retireShops(service))
afterAll(async () => {
  await service.stop()
  await Promise.all([hook.close(), smtp.close()])
})

/** Until that hour of the next day. */
function msUntil(hour: number): number {
  const now = service.clock.now()
  const then = new Date(now)
  then.setUTCDate(then.getUTCDate() + 1)
  then.setUTCHours(hour, 0, 0, 0)
  return then.getTime() - now.getTime()
}

type ReceivedEvent = { type: string; data: { orphans: { payment_id: string; state: string }[] } }

/** Events of unclaimed payments at the receiver. */
function received(): string[] {
  return hook
    .bodies()
    .filter(({ type }: ReceivedEvent) => type.startsWith('orphans.'))
    .flatMap(({ type, data }: ReceivedEvent) =>
      data.orphans.map((one) => `${type} ${one.payment_id} ${one.state}`),
    )
}

/** Runs the payment watch and the check once a minute, or every few minutes where nothing is expected. */
async function pass(minutes: number, every = 1): Promise<void> {
  for (let minute = 0; minute < minutes; minute += every) {
    await watchAfter(service, every * 60_000)
    await service.notifications.checkOnce()
  }
}

async function settle(till: Till, paymentId: string, how: string): Promise<void> {
  const { orphans } = (await call(service, { url: '/orphans', token: till.key })).json()
  const orphan = orphans.find((one: { payment_id: string }) => one.payment_id === paymentId)
  const answer = await call(service, {
    url: `/orphans/${orphan.id}/${how}`,
    token: till.key,
    body: { reason: 'por prueba' },
  })
  expect(answer.statusCode, answer.body).toBe(200)
}

async function openShop(client: string): Promise<Till> {
  const till = await openOwnShop(service, client)
  await sell(service, till, 'A-1')
  await service.paymentWatch.watchOnce()
  return till
}

test('each unclaimed payment is notified once within ten minutes, and once more when it is settled', {
  tags: ['long'],
}, async () => {
  const till = await openShop('settling')
  const [first, second] = [await typeCharge(service, till), await typeCharge(service, till)]
  await typeCharge(service, till, { pos_id: undefined })
  await pass(9)
  expect(received().sort()).toEqual([`orphans.found ${first} open`, `orphans.found ${second} open`])
  const [mail] = smtp.mails
  expect(smtp.mails).toHaveLength(1)
  expect(mail?.head).toContain('settling, caja CAJA-1: 2 pagos sin venta')
  expect(mail?.text).toContain(`pago ${first}, $ 77,50`)
  expect(mail?.text).toContain('GET /orphans?state=open')
  await pass(60, 5)
  expect(received()).toHaveLength(2)

  hook.reset()
  await settle(till, first, 'refund')
  await settle(till, second, 'dismiss')
  await pass(2)
  expect(received().sort()).toEqual([
    `orphans.settled ${first} refunded`,
    `orphans.settled ${second} dismissed`,
  ])
  await pass(30, 5)
  expect(received()).toHaveLength(2)
})

test('an unclaimed payment that is settled in the quiet hours before its notification is not notified', {
  tags: ['long'],
}, async () => {
  const till = await openShop('quiet')
  service.clock.advance(msUntil(2))
  await service.paymentWatch.watchOnce()
  const settled = await typeCharge(service, till)
  const open = await typeCharge(service, till)
  await pass(9)
  expect(received()).toEqual([])
  await settle(till, settled, 'dismiss')
  await pass(70, 5)
  expect(received()).toEqual([`orphans.found ${open} open`])
})

test('many unclaimed payments are notified in messages of twenty, each of them once', {
  tags: ['long'],
}, async () => {
  const till = await openShop('many')
  const planted: string[] = []
  for (let at = 0; at < 45; at += 1) planted.push(await typeCharge(service, till))
  await pass(9)
  expect(received().sort()).toEqual(planted.map((id) => `orphans.found ${id} open`).sort())
  const sizes = hook.bodies().map(({ data }: ReceivedEvent) => data.orphans?.length)
  expect(sizes.filter(Boolean).sort((a, b) => Number(a) - Number(b))).toEqual([5, 20, 20])
})

test('a further payment of an order is notified with the reference of that order', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'Dos pagos')
  const orderId = await sell(service, till, 'A-77', { amount: '100,00' })
  await act(service, orderId, { ...payByCard, do: 'pay_again' })
  await pass(9)
  expect(hook.bodies().flatMap(({ data }) => data?.orphans ?? [])).toMatchObject([
    { amount: '100.00', surplus_of: 'A-77' },
  ])
  expect(smtp.mails.map(({ text }) => text).join()).toContain('otro pago del cobro A-77')
})
