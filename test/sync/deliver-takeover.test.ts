import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  needsPostgres,
  openPostgresClone,
  type PostgresClone,
  postgresUrl,
} from '../support/database.ts'
import { createService, flowOf, latch, receiver, rowOf, statesOf } from './deliver-support.ts'

// The embedded database has one process only, so nobody can take anything over there.
const title = postgresUrl ? '' : ` (${needsPostgres})`
const onPostgres = test.skipIf(!postgresUrl)
const soon = { timeout: 15_000, interval: 20 }
const children: ChildProcess[] = []
let clone: PostgresClone | undefined
let folder = ''

const server = () => {
  if (!clone) throw new Error('only with PostgreSQL')
  return clone
}
const createProcess = (processId: string) =>
  createService(server().database, { processId, leaseMs: 600, recoverMs: 200 })

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
  `kill -9 in the middle: another process delivers the rest under the same keys${title}`,
  async () => {
    const file = join(folder, 'attempts')
    await writeFile(file, '')
    const attempts = async () =>
      (await readFile(file, 'utf8'))
        .split('\n')
        .filter((line) => line.endsWith('}'))
        .map((line) => JSON.parse(line) as { pk: string; jobKey: string; attempt: number })
    const survivor = createProcess('survivor')
    await survivor.start()
    const flow = flowOf('killed', [{ concurrency: 3 }])
    const script = fileURLToPath(new URL('deliver-child.ts', import.meta.url))
    const child = spawn(process.execPath, [script, server().url, file], { stdio: 'inherit' })
    children.push(child)
    const web = receiver()
    // It stands by, since the child has the lease.
    await expect
      .poll(
        async () =>
          (await sql`select from leases where owner <> 'survivor'`.execute(server().database.db))
            .rows.length,
        soon,
      )
      .toBe(1)
    await survivor.run(flow, [web])
    const pks = Array.from({ length: 120 }, (_, index) => String(index))
    await survivor.change(
      flow,
      pks.map((pk) => ({ pk })),
    )
    await expect.poll(async () => (await attempts()).length, soon).toBeGreaterThan(20)
    expect(web.calls).toEqual([])
    child.kill('SIGKILL')

    await expect.poll(() => statesOf(server().database, 'killed'), soon).toEqual({ done: 120 })
    const before = await attempts()
    expect(before.length).toBeLessThan(120)
    const all = [...before, ...web.calls]
    expect(new Set(all.map(({ pk }) => pk)).size).toBe(120)
    // One key per item, so that a receiver can tell the few that come twice; the attempt that died is not counted.
    expect(new Set(all.map(({ pk, jobKey }) => `${pk} ${jobKey}`)).size).toBe(120)
    expect(all.every(({ attempt }) => attempt === 1)).toBe(true)
    expect(all.length - 120).toBeLessThan(120)
    await survivor.stop()
  },
)

onPostgres(
  `who lost the lease writes nothing any more, even with a late answer${title}`,
  async () => {
    const flow = flowOf('zombie', [{ concurrency: 1 }])
    const zombie = createProcess('zombie')
    const heir = createProcess('heir')
    await Promise.all([zombie.start(), heir.start()])
    const hold = latch()
    const late = receiver(async () => {
      await hold.opened
      return { ok: true }
    })
    const web = receiver()
    await zombie.run(flow, [late])
    await zombie.change(flow, [{ pk: 'a', hash: 'h1:old' }])
    await expect.poll(() => late.calls.length, soon).toBe(1)
    // As if it had stood still for longer than its lease.
    const { db } = server().database
    await db
      .updateTable('leases')
      .set({ owner: 'heir', deadline: new Date(Date.now() - 1) })
      .where('name', '=', 'deliver:zombie/web')
      .execute()
    await heir.run(flow, [web])
    await expect.poll(() => web.calls.length, soon).toBe(1)
    await heir.change(flow, [{ pk: 'a', hash: 'h1:new' }])
    await expect
      .poll(() => rowOf(server().database, 'zombie', 'a'), soon)
      .toMatchObject({ state: 'done', delivered_hash: 'h1:new' })
    const lost = () => zombie.log.lines.filter(({ message }) => message.includes('taken over'))
    expect(lost()).toEqual([])
    hold.open()
    await expect.poll(() => lost().length, soon).toBe(1)
    expect(await rowOf(server().database, 'zombie', 'a')).toMatchObject({
      state: 'done',
      delivered_hash: 'h1:new',
      version: 2,
    })
    await zombie.stop()
    await heir.stop()
  },
)

onPostgres(`a wake-up that got lost is found again${title}`, async () => {
  const flow = flowOf('lost')
  const own = createProcess('own')
  await own.start()
  const web = receiver()
  await own.run(flow, [web])
  await own.close('lost')
  await own.change(flow, [{ pk: 'a' }])
  const { db } = server().database
  await sql`delete from pgboss.job where name = 'lost/web'`.execute(db)
  await sql`update deliveries set queued_at = now() - interval '1 minute' where flow = 'lost'`.execute(
    db,
  )
  await own.run(flow, [web])
  await expect.poll(() => web.calls.length, soon).toBe(1)
  await own.stop()
})
