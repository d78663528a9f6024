import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { by, join, type TestPerson } from '../support/people.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, asAdmin, call, charge, openShop, payByCard, type Till } from '../support/till.ts'

/** Hashing a password takes 0.1 s of processor time, and other work keeps the processors busy. */
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let service: TestService
let shop: Till & { terminalId: string }
let ana: TestPerson
beforeAll(async () => {
  service = await startTestService()
  shop = await openShop(service, 'acme', '9500001')
  ana = await join(service, { name: 'Ana Gómez', role: 'administrator', client: 'acme' })
  await service.database.db.updateTable('api_keys').set({ description: 'Caja central' }).execute()
})
afterAll(() => service.stop())

const sell = async (reference: string) =>
  (await charge(service, shop, { reference })).json().order_id as string
const entriesOf = async (query: string) =>
  (await asAdmin(service, { url: `/admin/activity?${query}` })).json().logs

test('a cancel names the person and the reason, in the audit log and in the timeline of the order', async () => {
  const id = await sell('CANCEL')
  const canceled = await by(service, ana, {
    url: '/orders/cancel',
    headers: { 'x-reason': encodeURIComponent('El cliente se arrepintió') },
    body: { order_id: id },
  })
  expect(canceled.statusCode).toBe(200)
  const logs = await entriesOf(`order_id=${id}`)
  expect(logs.map(({ action, who }: Record<string, unknown>) => [action, who])).toEqual([
    ['order.canceled', { kind: 'person', name: 'Ana Gómez' }],
    ['order.created', { kind: 'key', name: 'Caja central' }],
  ])
  expect(logs[0].metadata).toMatchObject({
    reason: 'El cliente se arrepintió',
    person: 'Ana Gómez',
    person_id: ana.id,
  })
  const { entries } = (await by(service, ana, { url: `/orders/${id}/timeline` })).json()
  const actions = entries.filter(({ kind }: { kind: string }) => kind === 'action')
  expect(actions).toMatchObject([
    { detail: 'order.created', who: { kind: 'key', name: 'Caja central' } },
    {
      detail: 'order.canceled',
      who: { kind: 'person', name: 'Ana Gómez' },
      note: 'El cliente se arrepintió',
      source: 'success',
    },
  ])
})

test('a refund that the service ends later names the person who requested it', async () => {
  const id = await sell('REFUND')
  await act(service, id, payByCard)
  await call(service, { url: `/orders/${id}`, token: shop.key })
  const { actorOfEnd, askedBy } = await import('../../src/payments/request-context.ts')
  const refund = await by(service, ana, {
    url: '/orders/refund',
    headers: { 'x-reason': 'cobrado%20dos%20veces' },
    body: { order_id: id, amount: '1,00' },
  })
  expect(refund.statusCode).toBe(200)
  const { asked_by: asked } = await service.database.db
    .selectFrom('order_operations')
    .select('asked_by')
    .where('order_id', '=', id)
    .executeTakeFirstOrThrow()
  expect(asked).toMatchObject({ person: { name: 'Ana Gómez' }, reason: 'cobrado dos veces' })
  const startedAt = service.clock.now()
  const ended = actorOfEnd({ asked_by: asked }, { ipAddress: null, startedAt })
  expect(ended).toMatchObject({ person: { id: ana.id }, reason: 'cobrado dos veces', startedAt })
  // A caller who ends it with a request of his own is named instead.
  const other = { ipAddress: '10.0.0.1', keyId: 'k', startedAt }
  expect(actorOfEnd({ asked_by: asked }, other)).toBe(other)
  expect(askedBy({ ipAddress: null, startedAt })).toBeNull()
})

test.each([
  ['not percent-encoded', '%E0%A4%A'],
  ['with a control character', 'a%0Ab'],
  ['too long', 'x'.repeat(301)],
])('a reason that is %s is refused, and nothing is canceled', async (_what, reason) => {
  const id = await sell(`BAD ${reason.slice(0, 8)}`.replaceAll('%', '-'))
  const answer = await by(service, ana, {
    url: '/orders/cancel',
    headers: { 'x-reason': reason },
    body: { order_id: id },
  })
  expect(answer.statusCode).toBe(422)
  const order = (await by(service, ana, { url: `/orders/${id}` })).json()
  expect(order.status).toBe('created')
  await by(service, ana, { url: '/orders/cancel', body: { order_id: id } })
})

test('the audit log is searched by person, order and time, and an administrator of a client reads that client only', async () => {
  const id = await sell('SEARCH')
  await asAdmin(service, { url: '/orders/cancel?client=acme', body: { order_id: id } })
  const mine = await entriesOf(`person_id=${ana.id}`)
  expect(mine.length).toBeGreaterThan(2)
  expect(new Set(mine.map(({ who }: { who: { name: string } }) => who.name))).toEqual(
    new Set(['Ana Gómez']),
  )
  const [canceled] = await entriesOf(`order_id=${id}&action=order.canceled`)
  expect(canceled.who).toEqual({ kind: 'administrator', name: null })
  const at = canceled.created_at
  const later = new Date(Date.parse(at) + 1).toISOString()
  expect((await entriesOf(`order_id=${id}&from=${at}&to=${later}`)).length).toBe(1)
  expect((await entriesOf(`order_id=${id}&from=${later}`)).length).toBe(0)
  const own = (await by(service, ana, { url: '/admin/activity?limit=200' })).json().logs
  expect(new Set(own.map((log: { client_name: string }) => log.client_name))).toEqual(
    new Set(['acme']),
  )
  expect((await by(service, ana, { url: '/admin/activity?client=other' })).statusCode).toBe(403)
})

test('a closing shows the name of the person who signed it', async () => {
  const body = { caja_id: 'CAJA-1', business_day: '2026-01-05' }
  const { id } = (await by(service, ana, { url: '/closings', body })).json()
  await service.paymentWatch.watchOnce()
  expect((await by(service, ana, { method: 'POST', url: `/closings/${id}/sign` })).statusCode).toBe(
    200,
  )
  const paper = await by(service, ana, { url: `/closings/${id}/print` })
  expect(paper.body).toContain('Ana Gómez')
  const [entry] = await entriesOf('action=closing.signed')
  expect(entry.who).toEqual({ kind: 'person', name: 'Ana Gómez' })
})
