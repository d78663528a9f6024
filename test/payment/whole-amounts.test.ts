import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  clearFaults,
  creation,
  forgetRequests,
  newAccount,
  orderRow,
  ordersAtProvider,
  providerRequests,
  refund,
  refunding,
  setFaults,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  charge,
  openShop,
  payByCard,
  readOrder,
  sandboxCall,
  type Till,
} from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

async function openShopIn(site: string, client: string): Promise<Till> {
  const account = newAccount()
  await sandboxCall(service, 'POST', '/_sandbox/users', { id: Number(account), site_id: site })
  return openShop(service, client, account)
}

const sites = [
  ['MLC', 'CLP'],
  ['MCO', 'COP'],
  ['MPY', 'PYG'],
] as const

test.each(sites)(
  'an account of %s accepts no cents: the charge is refused before its intent',
  async (site, currency) => {
    const till = await openShopIn(site, `cents ${site}`)
    await forgetRequests(service)
    const answer = await charge(service, till, { reference: 'A-1', amount: '1234,50' })
    expect([answer.statusCode, answer.json()]).toMatchObject([
      422,
      { code: 'VALIDATION_ERROR', outcome: 'not_charged', retry_safe: false },
    ])
    expect(answer.json().details[0].message).toContain(
      `takes ${currency} without cents (got "1234,50")`,
    )
    expect(await providerRequests(service)).toEqual([])
    const rows = await service.database.db
      .selectFrom('orders')
      .select('id')
      .where('mp_user_id', '=', till.mpUserId)
      .execute()
    expect(rows).toEqual([])
  },
)

test.each(sites)(
  'a charge and a partial refund are sent without decimals to %s',
  async (site, currency) => {
    const till = await openShopIn(site, `whole ${site}`)
    await forgetRequests(service)
    const { order_id } = (
      await charge(service, till, { reference: 'A-1', amount: '5000,00' })
    ).json()
    const [sent] = await providerRequests(service, creation)
    expect(sent?.body?.transactions).toEqual({ payments: [{ amount: '5000' }] })
    await act(service, order_id, payByCard)
    expect((await readOrder(service, till, order_id)).json()).toMatchObject({
      status: 'processed',
      amount: '5000.00',
      outcome: 'charged',
    })
    const odd = await refund(service, till, order_id, '10,05')
    expect([odd.statusCode, odd.json()]).toMatchObject([
      422,
      { code: 'VALIDATION_ERROR', outcome: 'charged', retry_safe: false },
    ])
    expect(await providerRequests(service, refunding)).toEqual([])
    const part = await refund(service, till, order_id, '1000,00')
    expect([part.statusCode, part.json().amount]).toEqual([200, '1000.00'])
    const [given] = await providerRequests(service, refunding)
    expect(given?.body?.transactions).toMatchObject([{ amount: '1000' }])
    expect(currency).toHaveLength(3)
    const rest = await refund(service, till, order_id)
    expect([rest.statusCode, rest.json().amount]).toEqual([200, '4000.00'])
  },
)

test('a charge whose answer was lost is sent again with the same amount', async () => {
  const till = await openShopIn('MLC', 'lost answer')
  await setFaults(service, { ...creation, kind: 'drop_after', count: 1 })
  const answer = await charge(service, till, { reference: 'A-1', amount: '5000,00' })
  await clearFaults(service)
  const { order_id } =
    answer.statusCode === 201
      ? answer.json()
      : (await charge(service, till, { reference: 'A-1', amount: '5000,00' })).json()
  expect((await orderRow(service, order_id)).creation).toBe('confirmed')
  expect(ordersAtProvider(service, till)).toHaveLength(1)
})

async function forgetSite(till: Till): Promise<void> {
  await service.database.db
    .deleteFrom('account_sites')
    .where('mp_user_id', '=', till.mpUserId)
    .execute()
}

test('a country that was not read when connecting is read before the first charge', async () => {
  const till = await openShopIn('MLC', 'read later')
  await forgetSite(till)
  expect((await charge(service, till, { reference: 'A-1', amount: '1234,50' })).statusCode).toBe(
    422,
  )
})

test('while the country cannot be read an amount with cents is refused, and one without is charged', async () => {
  const till = await openShopIn('MLA', 'unreadable')
  await forgetSite(till)
  await setFaults(service, { path: '^/users/me$', kind: 'status', status: 403 })
  try {
    const cents = await charge(service, till, { reference: 'A-1', amount: '1234,50' })
    expect([cents.statusCode, cents.json()]).toMatchObject([
      502,
      { code: 'PROVIDER_ERROR', outcome: 'not_charged', retry_safe: true },
    ])
    const whole = await charge(service, till, { reference: 'A-2', amount: '1234,00' })
    expect(whole.statusCode, whole.body).toBe(201)
  } finally {
    await clearFaults(service)
  }
})

test('an account with cents is charged with two decimals', async () => {
  const till = await openShopIn('MLA', 'with cents')
  await forgetRequests(service)
  await charge(service, till, { reference: 'A-1', amount: '1234,50' })
  const [sent] = await providerRequests(service, creation)
  expect(sent?.body?.transactions).toEqual({ payments: [{ amount: '1234.50' }] })
})
