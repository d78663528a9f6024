import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { AppError } from '../../src/errors/app-error.ts'
import { inTime, requestContext } from '../../src/payments/operations/request-context.ts'
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

/** A till is promised its answer within this time of its request. */
const promisedMs = 24_000
/** What a busy machine may add. */
const slackMs = 900

let service: TestService
let passedMs = 0
let startedMs = 0
const stopwatch = () => performance.now() + passedMs
/** Time that the provider, or somebody else, lets pass. */
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

/** The provider refuses the token, but only just before the attempt's time is over; from then on it says nothing. */
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

test('a charge is answered in time when the provider refuses the token late and then says nothing', async () => {
  const till = await openOwnShop(service, 'late charge')
  await refuseLateThenHang('create', creation)
  begin()
  const answer = await charge(service, till, { reference: 'E-1' })
  expect(answer.json()).toMatchObject({ code: 'PROVIDER_TIMEOUT', outcome: 'unknown' })
  expect(tookMs()).toBeLessThan(promisedMs + slackMs)
  // It took its time, too.
  expect(tookMs()).toBeGreaterThan(15_000)
})

test('a cancel is answered in time when the provider refuses the token late and then says nothing', async () => {
  const till = await openOwnShop(service, 'late cancel')
  const { order_id } = (await charge(service, till, { reference: 'E-2' })).json()
  await refuseLateThenHang('cancel', canceling)
  begin()
  const answer = await cancel(service, till, order_id)
  expect(answer.json()).toMatchObject({ code: 'PROVIDER_TIMEOUT', outcome: 'unknown' })
  expect(tookMs()).toBeLessThan(promisedMs + slackMs)
  expect(tookMs()).toBeGreaterThan(15_000)
})

test('a refund is answered in time when the provider refuses the token late and then says nothing', async () => {
  const till = await openOwnShop(service, 'late refund')
  const { order_id } = (await charge(service, till, { reference: 'E-3' })).json()
  await act(service, order_id, payByCard)
  await readOrder(service, till, order_id)
  await refuseLateThenHang('refund', refunding)
  begin()
  const answer = await refund(service, till, order_id)
  expect(answer.json()).toMatchObject({ code: 'PROVIDER_TIMEOUT', outcome: 'unknown' })
  expect(tookMs()).toBeLessThan(promisedMs + slackMs)
  expect(tookMs()).toBeGreaterThan(15_000)
})

test('who has waited for another sender has only the rest of his time for the provider', async () => {
  const till = await openOwnShop(service, 'late sender')
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
  expect(tookMs()).toBeLessThan(promisedMs + slackMs)
  expect(tookMs()).toBeGreaterThan(20_000)
  expect(ordersAtProvider(service, till)).toEqual([])
})

/** Of somebody who has waited for so long already. */
function waiting(forMs: number) {
  return requestContext({ ipAddress: null, startedAt: new Date() }, stopwatch() - forMs)
}

const late = () => new AppError('PROVIDER_TIMEOUT', { extra: { outcome: 'unknown' } })

test('a till has its answer within 25 s of its request, however long the work still takes', async () => {
  const work = Promise.withResolvers<string>()
  const answered = inTime(service.deps, waiting(24_450), work.promise, late)
  await expect(answered).rejects.toMatchObject({
    code: 'PROVIDER_TIMEOUT',
    extra: { outcome: 'unknown' },
  })
  // What becomes of the work afterwards is no unhandled failure.
  work.reject(new Error('later'))
})

test('work that ends in time is answered as it ended', async () => {
  const { deps } = service
  expect(await inTime(deps, waiting(0), Promise.resolve('done'), late)).toBe('done')
  const failed = inTime(deps, waiting(0), Promise.reject(new Error('failed')), late)
  await expect(failed).rejects.toThrow('failed')
})
