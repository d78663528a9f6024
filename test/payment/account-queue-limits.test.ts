import { expect, test } from 'vitest'
import type { PaymentDeps } from '../../src/payments/deps.ts'
import {
  AccountQueues,
  createAccountPauses,
  type Unit,
} from '../../src/payments/operations/account-queues.ts'
import type { LeaseLimits } from '../../src/repositories/due-work.ts'

const account = 7

/** Queues with a limit of four, two for each account. The first lease call waits for the test; later ones return nothing. */
function openQueues() {
  const first = Promise.withResolvers<Unit[]>()
  const work = Promise.withResolvers<void>()
  const asked: LeaseLimits[] = []
  const queues = new AccountQueues({ now: () => new Date(0) } as PaymentDeps, {
    name: 'test',
    pauses: createAccountPauses(),
    atOnce: 4,
    lease: async (_now, _until, limits) => {
      asked.push(limits)
      return asked.length === 1 ? first.promise : []
    },
    work: () => work.promise,
  })
  return { queues, asked, answer: first.resolve, endWork: work.resolve }
}

test('while work is leased no place is reserved, so an account never exceeds its limit', async () => {
  const { queues, asked, answer, endWork } = openQueues()
  const working = queues.once()
  await expect.poll(() => asked.length).toBe(1)
  expect(queues.reserve(account)).toBeUndefined()
  expect(queues.reserve(undefined)).toBeUndefined()
  answer([
    { id: 'a', account },
    { id: 'b', account },
  ])
  // Another account has places as soon as the lease call has ended.
  await expect.poll(() => queues.reserve(8)).toBeTypeOf('function')
  expect(queues.reserve(account)).toBeUndefined()
  expect(queues.offer({ id: 'c', account })).toBe(false)
  endWork()
  expect(await working).toBe(2)
})

test('a place reserved for an unknown account stays free in the queue of each account', async () => {
  const { queues, asked, answer, endWork } = openQueues()
  const release = queues.reserve(undefined)
  const working = queues.once()
  await expect.poll(() => asked[0]).toMatchObject({ limit: 3, perAccount: 1 })
  answer([{ id: 'a', account }])
  await expect.poll(() => queues.reserve(8)).toBeTypeOf('function')
  expect(queues.reserve(account)).toBeUndefined()
  release?.()
  expect(queues.offer({ id: 'b', account })).toBe(true)
  endWork()
  expect(await working).toBe(1)
})
