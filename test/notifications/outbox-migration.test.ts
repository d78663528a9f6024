/** @module-tag long */
import { cp, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Database, openDatabase } from '../../src/db/database.ts'
import { migrate, migrationsFolder } from '../../src/db/migrate.ts'
import { openReceivers } from '../../src/notifications/receivers.ts'
import { newPgliteTemplate } from '../support/pglite-template.ts'
import { createFailingFlow, minutes, seconds } from './failing-flow.ts'
import { openHttpReceiver } from './receivers.ts'

const migration = '0105_one_outbox.sql'
let database: Database
let hook: Awaited<ReturnType<typeof openHttpReceiver>>

beforeAll(async () => {
  hook = await openHttpReceiver()
  database = await openDatabase({ inMemory: true, loadDataDir: await newPgliteTemplate() })
  const folder = await mkdtemp(join(tmpdir(), 'tillbridge-migrations-'))
  for (const name of await readdir(migrationsFolder)) {
    if (name < migration) await cp(join(migrationsFolder, name), join(folder, name))
  }
  await migrate(database, { folder })
  await rm(folder, { recursive: true })
})
afterAll(async () => {
  await Promise.all([hook.close(), database.close()])
})

test('a message that waited before the upgrade is sent once under its id, and its failures stay in one group', async () => {
  const flow = createFailingFlow(database)
  const definition = flow.definition({ onJobFailed: [{ type: 'webhook', url: hook.url }] })
  const probe = flow.process('probe')
  const since = new Date(flow.clock.at).toISOString()
  // By the columns that there were then.
  await sql`insert into deliveries (flow, destination, pk, version, change_number, kind, hash, payload,
      state, attempts, last_error, queued_at, finished_at)
    select ${flow.name}, 'web', pk, 1, 1, 'upsert', 'h', '{}'::jsonb, 'failed', 1, 'HTTP 500',
      ${since}::timestamptz, ${since}::timestamptz
    from unnest(${['a', 'b']}::text[]) as pk`.execute(database.db)
  const message = {
    ...{ kind: 'failed', id: 'msg_before', at: since, flow: flow.name },
    ...{ destination: 'web', failed: 2, open: 2, since, examples: [] },
  }
  const opened = openReceivers(definition, { ...flow.deps, timeoutMs: 1_000 })
  const [channel] = opened.receivers.map((one) => one.channel.key)
  await opened.agent.close()
  await sql`insert into flow_alerts (flow, channel, kind, subject, firing, firing_since, messages, message)
    values (${flow.name}, ${channel}, 'failures', 'web', true, ${since}, 1, ${JSON.stringify(message)}::jsonb),
      (${flow.name}, ${channel}, 'degraded', 'failedJobs', true, ${since}, 1,
        ${JSON.stringify({ ...message, kind: 'degraded', id: 'msg_condition' })}::jsonb)`.execute(
    database.db,
  )
  await sql`update deliveries set told_version = version where flow = ${flow.name}`.execute(
    database.db,
  )
  await migrate(database)

  await probe.openFlow(definition)
  await probe.checkOnce()
  expect(hook.bodies()).toMatchObject([{ type: 'flow.failed', data: { failed: 2, open: 2 } }])
  expect(hook.calls[0]?.headers['webhook-id']).toBe('msg_before')
  flow.clock.at += seconds(31)
  await flow.deliver(['a', 'b'])
  flow.clock.at += minutes(6)
  await probe.checkOnce()
  expect(hook.bodies().slice(1)).toMatchObject([
    { type: 'flow.recovered', data: { destination: 'web', since } },
  ])
  await probe.stop()
})
