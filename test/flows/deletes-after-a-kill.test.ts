import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { insertFlowState } from '../../src/repositories/flows/flow-state.ts'
import { openTestDatabase } from '../support/database.ts'
import { createService, flowOf, latch, receiver, rowOf, type Service } from './deliver-support.ts'

/** Deletes of items whose first attempt a killed process may have made without a record of it. */

let database: Database
let service: Service
beforeAll(async () => {
  database = await openTestDatabase()
  service = createService(database)
  await service.start()
})
afterEach(() => service.closeAll())
afterAll(async () => {
  await service.stop()
  await database.close()
})

const soon = { timeout: 10_000, interval: 10 }
const removed = { pk: 'A', kind: 'delete' as const, hash: 'deleted' }
const stateOf = async (flow: string) => (await rowOf(database, flow, 'A'))?.state

test('an item that waited when the process took over may have been sent, so its delete is sent too', async () => {
  const flow = flowOf('taken-over')
  const web = receiver()
  // Queued, sent by a process that is then killed, and removed from the source before another one delivers.
  await service.change(flow, [{ pk: 'A' }])
  await service.change(flow, [removed])
  await service.run(flow, [web])
  await expect.poll(() => stateOf('taken-over'), soon).toBe('done')
  expect(web.calls.map(({ pk, kind }) => [pk, kind])).toEqual([['A', 'delete']])
  expect(await rowOf(database, 'taken-over', 'A')).toMatchObject({ skipped: null })
})

test('an item that was added and removed while the process was busy was never sent, and is not deleted', async () => {
  const flow = flowOf('came-and-went', [{ concurrency: 1 }])
  const busy = latch()
  const web = receiver(async ({ pk }) => {
    if (pk === 'B') await busy.opened
    return { ok: true }
  })
  await service.run(flow, [web])
  await service.change(flow, [{ pk: 'B' }])
  await expect.poll(() => web.calls.length, soon).toBe(1)
  await service.change(flow, [{ pk: 'A' }])
  await service.change(flow, [removed])
  busy.open()
  await expect.poll(() => stateOf('came-and-went'), soon).toBe('done')
  expect(web.calls.map(({ pk }) => pk)).toEqual(['B'])
})

test('a delete of an item that was never meant for the destination is not sent by the next process either', async () => {
  const flow = flowOf('first-delete')
  const web = receiver()
  // Its definition is not accepted yet: it is to get all items.
  await database.transaction((trx) => insertFlowState(trx, 'first-delete', 'd1', new Date()))
  await service.change(flow, [removed])
  await service.run(flow, [web])
  await expect.poll(() => stateOf('first-delete'), soon).toBe('done')
  expect(web.calls).toEqual([])
})
