/** @module-tag long */

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { leaderLease } from '../../src/repositories/flows/leader-lease.ts'
import {
  needsPostgres,
  openPostgresClone,
  type PostgresClone,
  postgresUrl,
} from '../support/database.ts'
import { createService, down, flowOf, latch, receiver, rowOf, statesOf } from './deliver-support.ts'

// The embedded database has one process only, so no other process can take over.
const title = postgresUrl ? '' : ` (${needsPostgres})`
const onPostgres = test.skipIf(!postgresUrl)
const soon = { timeout: 15_000, interval: 20 }
const children: ChildProcess[] = []
let begun = 0
/** Each attempt at a test has a flow of its own: what an earlier one left behind stays there. */
const nameOf = (what: string) => {
  begun += 1
  return `${what}-${begun}`
}
let clone: PostgresClone | undefined
let folder = ''

const server = () => {
  if (!clone) throw new Error('only with PostgreSQL')
  return clone
}
const createProcess = (processId: string, leaseMs = 600) =>
  createService(server().database, { processId, leaseMs })
/** Longer than the test, so that the lease goes to the process that the test chooses, however slow the machine is. */
const longLeaseMs = 120_000

/** The number of attempts of a child with an answer, before others hang. */
const answered = 30

/** Longer than a busy machine delays a process; all processes use the same length for a lease. */
const childLeaseMs = 3_000

/** A separate process that delivers a flow; it writes its attempts to the file, and its warnings beside it. */
function startChild(flow: string, file: string, concurrency: string): ChildProcess {
  const script = fileURLToPath(new URL('deliver-child.ts', import.meta.url))
  const args = [
    script,
    server().url,
    file,
    flow,
    concurrency,
    String(answered),
    String(childLeaseMs),
  ]
  const child = spawn(process.execPath, args, { stdio: 'inherit' })
  children.push(child)
  return child
}

const ownerOf = async () =>
  (
    await server()
      .database.db.selectFrom('leases')
      .select('owner')
      .where('name', '=', leaderLease)
      .executeTakeFirst()
  )?.owner

/** As if its owner had stood still for longer than its lease, and `heir` had been there. */
async function expireLease(heir: string): Promise<void> {
  await server()
    .database.db.updateTable('leases')
    .set((eb) => ({ owner: heir, token: eb('token', '+', 1), deadline: new Date(Date.now() - 1) }))
    .where('name', '=', leaderLease)
    .execute()
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'deliver-'))
  if (postgresUrl) clone = await openPostgresClone(postgresUrl)
})
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})
afterAll(async () => {
  await clone?.database.close()
  await rm(folder, { recursive: true })
})

onPostgres(
  `after a kill -9 during deliveries another process delivers the rest under the same keys${title}`,
  async () => {
    const name = nameOf('killed')
    const file = join(folder, name)
    await writeFile(file, '')
    const attempts = async () =>
      (await readFile(file, 'utf8'))
        .split('\n')
        .filter((line) => line.endsWith('}'))
        .map((line) => JSON.parse(line) as { pk: string; jobKey: string; attempt: number })
    const survivor = createProcess('survivor', childLeaseMs)
    const flow = flowOf(name, [{ concurrency: 3 }])
    const child = startChild(name, file, '3')
    const web = receiver()
    await expect.poll(ownerOf, soon).toMatch(/^child/)
    // It stands by, since the child leads.
    await survivor.start()
    await survivor.run(flow, [web])
    const pks = Array.from({ length: 120 }, (_, index) => String(index))
    await survivor.change(
      flow,
      pks.map((pk) => ({ pk })),
    )
    await expect.poll(async () => (await attempts()).length, soon).toBeGreaterThan(answered)
    expect(web.calls).toEqual([])
    child.kill('SIGKILL')

    await expect.poll(() => statesOf(server().database, name), soon).toEqual({ done: 120 })
    const before = await attempts()
    expect(before.length).toBeLessThan(120)
    const all = [...before, ...web.calls]
    expect(new Set(all.map(({ pk }) => pk)).size).toBe(120)
    // One key per item, so that a receiver can recognise the few that come twice; the interrupted attempt is not counted.
    expect(new Set(all.map(({ pk, jobKey }) => `${pk} ${jobKey}`)).size).toBe(120)
    expect(all.every(({ attempt }) => attempt === 1)).toBe(true)
    expect(all.length - 120).toBeLessThan(120)
    await survivor.stop()
  },
)

onPostgres(
  `a process that lost its lease writes nothing any more, even with a late answer${title}`,
  async () => {
    const name = nameOf('zombie')
    const flow = flowOf(name, [{ concurrency: 1 }])
    const zombie = createProcess('zombie', longLeaseMs)
    const heir = createProcess('heir', longLeaseMs)
    await zombie.start()
    const hold = latch()
    const late = receiver(async () => {
      await hold.opened
      return { ok: true }
    })
    const web = receiver()
    await zombie.run(flow, [late])
    await zombie.change(flow, [{ pk: 'a', hash: 'h1:old', value: { id: 'a', of: 'old' } }])
    await expect.poll(() => late.calls.length, soon).toBe(1)
    // As if it had stood still for longer than its lease.
    await expireLease('heir')
    await heir.start()
    await heir.run(flow, [web])
    await expect.poll(() => web.calls.length, soon).toBe(1)
    await heir.change(flow, [{ pk: 'a', hash: 'h1:new', value: { id: 'a', of: 'new' } }])
    await expect
      .poll(() => rowOf(server().database, name, 'a'), soon)
      .toMatchObject({ state: 'done', delivered_hash: 'h1:new' })
    const lost = () => zombie.log.lines.filter(({ message }) => message.includes('taken over'))
    expect(lost()).toEqual([])
    hold.open()
    await expect.poll(() => lost().length, soon).toBe(1)
    // It may have arrived after the newer one, so that is sent again, to a receiver that has its key by now.
    await expect.poll(() => web.calls.length, soon).toBe(3)
    await expect
      .poll(() => rowOf(server().database, name, 'a'), soon)
      .toMatchObject({ state: 'done', delivered_hash: 'h1:new', version: 3 })
    const [, newer, again] = web.calls
    expect(again).toMatchObject({ body: newer?.body, kind: 'upsert' })
    expect(again?.jobKey).not.toBe(newer?.jobKey)
    // By then it has noticed, and takes no more deliveries.
    await heir.change(flow, [{ pk: 'b', hash: 'h1:b' }])
    await expect.poll(() => web.calls.length, soon).toBe(4)
    expect([late.calls.length, lost().length]).toEqual([1, 1])
    await zombie.stop()
    await heir.stop()
  },
)

onPostgres(
  `a delete that a late request may have undone is sent again, and one without such a request is not${title}`,
  async () => {
    const name = nameOf('undone')
    const flow = flowOf(name, [{ concurrency: 2 }])
    const zombie = createProcess('zombie', longLeaseMs)
    const heir = createProcess('heir', longLeaseMs)
    await zombie.start()
    const hold = latch()
    const late = receiver(async () => {
      await hold.opened
      return down
    })
    const web = receiver()
    await zombie.run(flow, [late])
    await zombie.change(flow, [{ pk: 'gone' }, { pk: 'same' }])
    await expect.poll(() => late.calls.length, soon).toBe(2)
    await expireLease('heir')
    await heir.start()
    await heir.run(flow, [web])
    await expect.poll(() => web.calls.length, soon).toBe(2)
    await heir.change(flow, [{ pk: 'gone', kind: 'delete', hash: 'deleted' }])
    await expect.poll(() => statesOf(server().database, name), soon).toEqual({ done: 2 })
    hold.open()
    await expect.poll(() => web.calls.length, soon).toBe(4)
    expect(web.calls.at(-1)).toMatchObject({ pk: 'gone', kind: 'delete', item: { id: 'gone' } })
    await zombie.stop()
    await heir.stop()
    expect(web.calls.filter(({ pk }) => pk === 'same')).toHaveLength(1)
  },
)

onPostgres(
  `a request that is not sent before the lease is lost is not sent after it${title}`,
  async () => {
    const name = nameOf('withheld')
    const flow = flowOf(name, [{ concurrency: 1 }])
    const zombie = createProcess('zombie')
    const heir = createProcess('heir')
    await zombie.start()
    const hold = latch()
    let connecting = 0
    const late = receiver(undefined, async () => {
      connecting += 1
      await hold.opened
    })
    const web = receiver()
    await zombie.run(flow, [late])
    await zombie.change(flow, [{ pk: 'a', hash: 'h1:old', value: { id: 'a', of: 'old' } }])
    await expect.poll(() => connecting, soon).toBe(1)
    // As a clock that is set forward does: the lease is over before its time has passed.
    await expireLease('another')
    await heir.start()
    await heir.run(flow, [web])
    await expect.poll(() => web.calls.length, soon).toBe(1)
    hold.open()
    await zombie.stop()
    await heir.stop()
    expect(late.calls).toEqual([])
    expect(web.calls).toHaveLength(1)
  },
)

onPostgres(
  `after a process was suspended for longer than its lease every item has its last content${title}`,
  async () => {
    const name = nameOf('frozen')
    const file = join(folder, name)
    await writeFile(file, '')
    const attempts = async () =>
      (await readFile(file, 'utf8'))
        .split('\n')
        .filter((line) => line.endsWith('}'))
        .map((line) => JSON.parse(line) as { pk: string; hash: string; at: number })
    const survivor = createProcess('survivor', childLeaseMs)
    const flow = flowOf(name, [{ concurrency: 8 }])
    const arrived: { pk: string; hash: string; at: number }[] = []
    const web = receiver(async ({ pk, item }) => {
      arrived.push({ pk, hash: String(item.hash), at: Date.now() })
      return { ok: true }
    })
    const child = startChild(name, file, '8')
    await expect.poll(ownerOf, soon).toMatch(/^child/)
    await survivor.start()
    await survivor.run(flow, [web])
    const pks = Array.from({ length: 160 }, (_, index) => String(index))
    const send = (hash: string) =>
      survivor.change(
        flow,
        pks.map((pk) => ({ pk, hash, value: { id: pk, hash } })),
      )
    await send('old')
    await expect.poll(async () => (await attempts()).length, soon).toBeGreaterThan(answered)
    child.kill('SIGSTOP')
    // It may be suspended within a transaction, which blocks others until the database ends it.
    const isSent = () =>
      send('new').then(
        () => true,
        () => false,
      )
    await expect.poll(isSent, soon).toBe(true)
    await expect.poll(() => statesOf(server().database, name), soon).toEqual({ done: 160 })
    await writeFile(`${file}.go`, '')
    child.kill('SIGCONT')
    const wokenAt = Date.now()
    // It notices that it was overtaken, and the lease has no other owner after that.
    await expect.poll(() => readFile(`${file}.log`, 'utf8'), soon).toContain('taken over')
    await expect.poll(() => statesOf(server().database, name), soon).toEqual({ done: 160 })
    const stale = (await attempts()).filter(({ at }) => at > wokenAt)
    expect(stale).toEqual([])
    const last = new Map<string, { hash: string; at: number }>()
    for (const one of [...(await attempts()), ...arrived]) {
      if (one.at >= (last.get(one.pk)?.at ?? 0)) last.set(one.pk, one)
    }
    expect(new Set([...last.values()].map(({ hash }) => hash))).toEqual(new Set(['new']))
    await survivor.stop()
  },
)
