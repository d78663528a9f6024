import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { byDeadline, requestContext } from '../../src/payments/request-context.ts'
import {
  cancel,
  canceling,
  clearFaults,
  creation,
  type FaultRule,
  openOwnShop,
  ordersAtProvider,
  refund,
  refunding,
  setFaults,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, charge, payByCard, readOrder } from '../support/till.ts'

/** A client gets its answer within this time of its request. */
const answerWithinMs = 24_000
/** What a busy machine may add. */
const slackMs = 900

let service: TestService
let passedMs = 0
let startedMs = 0
const stopwatch = () => performance.now() + passedMs
/** Lets time pass, as a slow provider does. */
function pass(ms: number): void {
  passedMs += ms
  service.clock.advance(ms)
}

beforeAll(async () => {
  service = await startTestService({ hangsAreShort: true, stopwatch, onTimeout: pass })
})
afterEach(async () => {
  vi.restoreAllMocks()
  await clearFaults(service)
})
afterAll(() => service.stop())

/** The provider refuses the token just before the timeout of the attempt, and then does not answer. */
async function refuseLateThenHang(
  name: 'create' | 'cancel' | 'refund',
  rule: Pick<FaultRule, 'path' | 'method'>,
): Promise<void> {
  await setFaults(
    service,
    { ...rule, kind: 'status', status: 401, count: 1 },
    { ...rule, kind: 'hang_before', count: 20 },
  )
  const { orders } = service.deps.provider
  const send = orders[name].bind(orders) as (...args: unknown[]) => Promise<unknown>
  const late = async (...args: unknown[]) => send(...args).finally(() => pass(9_900))
  vi.spyOn(orders, name).mockImplementationOnce(late as never)
}

const begin = () => {
  startedMs = stopwatch()
}
const tookMs = () => stopwatch() - startedMs

test('a charge is answered before its deadline when the provider refuses the token late and then does not answer', async () => {
  const till = await openOwnShop(service, 'late charge')
  await refuseLateThenHang('create', creation)
  begin()
  const answer = await charge(service, till, { reference: 'E-1' })
  expect(answer.json()).toMatchObject({ code: 'PROVIDER_TIMEOUT', outcome: 'unknown' })
  expect(tookMs()).toBeLessThan(answerWithinMs + slackMs)
  // The test did use up the time of the retries.
  expect(tookMs()).toBeGreaterThan(15_000)
})

test('a cancel is answered before its deadline when the provider refuses the token late and then does not answer', async () => {
  const till = await openOwnShop(service, 'late cancel')
  const { order_id } = (await charge(service, till, { reference: 'E-2' })).json()
  await refuseLateThenHang('cancel', canceling)
  begin()
  const answer = await cancel(service, till, order_id)
  expect(answer.json()).toMatchObject({ code: 'PROVIDER_TIMEOUT', outcome: 'unknown' })
  expect(tookMs()).toBeLessThan(answerWithinMs + slackMs)
  expect(tookMs()).toBeGreaterThan(15_000)
})

test('a refund is answered before its deadline when the provider refuses the token late and then does not answer', async () => {
  const till = await openOwnShop(service, 'late refund')
  const { order_id } = (await charge(service, till, { reference: 'E-3' })).json()
  await act(service, order_id, payByCard)
  await readOrder(service, till, order_id)
  await refuseLateThenHang('refund', refunding)
  begin()
  const answer = await refund(service, till, order_id)
  expect(answer.json()).toMatchObject({ code: 'PROVIDER_TIMEOUT', outcome: 'unknown' })
  expect(tookMs()).toBeLessThan(answerWithinMs + slackMs)
  expect(tookMs()).toBeGreaterThan(15_000)
})

test('a request that waited for the lease of another one has only its remaining time for the provider', async () => {
  const till = await openOwnShop(service, 'late lease')
  await setFaults(service, { ...creation, kind: 'hang_before', count: 20 })
  const { order_id } = (await charge(service, till, { reference: 'E-4' })).json()
  const until = new Date(service.deps.now().getTime() + 4_000)
  await service.database.db
    .updateTable('orders')
    .set({ sender: crypto.randomUUID(), sender_until: until })
    .where('id', '=', order_id)
    .execute()
  await clearFaults(service)
  await refuseLateThenHang('create', creation)
  vi.spyOn(service.deps.changes, 'wait').mockImplementationOnce(async () => pass(12_000))
  begin()
  const answer = await charge(service, till, { reference: 'E-4' })
  expect(answer.json()).toMatchObject({ code: 'PROVIDER_TIMEOUT', outcome: 'unknown', order_id })
  expect(tookMs()).toBeLessThan(answerWithinMs + slackMs)
  expect(tookMs()).toBeGreaterThan(20_000)
  expect(ordersAtProvider(service, till)).toEqual([])
})

/** The context of a request that has waited for so long already. */
function waiting(forMs: number) {
  return requestContext({ ipAddress: null, startedAt: new Date() }, stopwatch() - forMs)
}

test('a client has its answer within 25 s of its request, however long the work still takes', async () => {
  const work = Promise.withResolvers<object>()
  expect(await byDeadline(service.deps, waiting(24_450), work.promise)).toBeUndefined()
  // A later failure of the work is not an unhandled rejection.
  work.reject(new Error('later'))
})

test('work that ends in time is answered with its own result', async () => {
  const { deps } = service
  const done = { done: true }
  expect(await byDeadline(deps, waiting(0), Promise.resolve(done))).toBe(done)
  const failed = byDeadline(deps, waiting(0), Promise.reject(new Error('failed')))
  await expect(failed).rejects.toThrow('failed')
})
