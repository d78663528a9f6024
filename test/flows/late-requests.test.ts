import { expect, test } from 'vitest'
import { requeueAfterLostLease } from '../../src/flows/deliver/retry-deliveries.ts'
import type { DeliveryOutcome } from '../../src/flows/deliver/retry-rules.ts'
import { useService } from './deliver-service.ts'
import { flowOf, memoryLog, receiver, rowOf, statesOf } from './deliver-support.ts'

const service = useService()
const soon = { timeout: 10_000, interval: 5 }

/** A request of an earlier version, by a process that lost its lease before the answer. */
const broken = (mayHaveArrived: boolean): DeliveryOutcome => ({
  ...{ kind: 'postponed', version: 1, delayMs: 0, mayHaveArrived },
})

test('what late requests may have overwritten is queued again in one transaction, and nothing else', async () => {
  const { database, run, change } = service()
  const flow = flowOf('late-requests')
  const web = receiver()
  await run(flow, [web])
  const arrived = (count: number) => expect.poll(() => web.calls.length, soon).toBe(count)
  const pks = ['a', 'b', 'same', 'unsent']
  await change(
    flow,
    pks.map((pk) => ({ pk, value: { id: pk, of: 'old' } })),
  )
  await arrived(4)
  const newer = ['a', 'b', 'unsent'].map((pk) => ({
    pk,
    hash: 'h1:new',
    value: { id: pk, of: 'new' },
  }))
  await change(flow, newer)
  await arrived(7)
  await expect.poll(() => statesOf(database, flow.name), soon).toEqual({ done: 4 })

  let transactions = 0
  const counting: typeof database = {
    ...database,
    transaction: (work) => {
      transactions += 1
      return database.transaction(work)
    },
  }
  const log = memoryLog()
  await requeueAfterLostLease(
    { database: counting, now: () => new Date(), log },
    { flow: flow.name, destination: 'web', keyNames: flow.item.key },
    ['b', 'unsent', 'same', 'a', 'unknown'].map((pk) => ({ pk, outcome: broken(pk !== 'unsent') })),
  )
  expect(transactions).toBe(1)
  expect(log.lines.map(({ fields }) => fields)).toMatchObject([{ pk: 'a' }, { pk: 'b' }])
  await arrived(9)
  await expect.poll(() => statesOf(database, flow.name), soon).toEqual({ done: 4 })
  const again = web.calls.slice(7)
  expect(again.map(({ pk, body }) => [pk, body]).sort()).toEqual([
    ['a', { id: 'a', of: 'new' }],
    ['b', { id: 'b', of: 'new' }],
  ])
  expect(await rowOf(database, flow.name, 'same')).toMatchObject({ version: 1, state: 'done' })
})
