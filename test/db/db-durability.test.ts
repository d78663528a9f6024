import { sql } from 'kysely'
import { afterAll, expect, test } from 'vitest'
import { openDatabase } from '../../src/db/open-database.ts'
import { needsPostgres, openEmbedded, openPostgresClone, postgresUrl } from '../support/database.ts'
import { onServer } from '../support/postgres-template.ts'

const closers: (() => Promise<void>)[] = []
afterAll(async () => {
  for (const close of closers) await close()
})

test('the embedded database reports that a power failure may lose data', async () => {
  const database = await openEmbedded()
  closers.push(database.close)
  const warnings = await database.settingWarnings()
  expect(warnings).toContain('fsync is off: data may be lost when the power fails')
  // It vacuums and analyzes by itself.
  expect(warnings.filter((text) => /^(autovacuum|track_counts)/.test(text))).toEqual([])
})

test.skipIf(!postgresUrl)(
  `PostgreSQL settings without durability are reported by name (${needsPostgres})`,
  async () => {
    const { database, url } = await openPostgresClone(postgresUrl ?? '')
    closers.push(database.close)
    const before = await database.settingWarnings()
    expect(before.filter((text) => text.startsWith('synchronous_commit'))).toEqual([])
    const name = new URL(url).pathname.slice(1)
    await onServer(url, (client) =>
      client.query(`alter database ${name} set synchronous_commit = off`),
    )
    const reconnected = await openDatabase({ databaseUrl: url })
    const warnings = await reconnected.settingWarnings()
    await reconnected.close()
    expect(warnings).toContain('synchronous_commit is off: data may be lost when the power fails')
  },
)

test.skipIf(!postgresUrl)(
  `a PostgreSQL that does not vacuum is reported, with what to do (${needsPostgres})`,
  async () => {
    const { database, url } = await openPostgresClone(postgresUrl ?? '')
    closers.push(database.close)
    const { rows } = await sql<{ autovacuum: string }>`show autovacuum`.execute(database.db)
    const name = new URL(url).pathname.slice(1)
    await onServer(url, (client) => client.query(`alter database ${name} set track_counts = off`))
    const reconnected = await openDatabase({ databaseUrl: url })
    const warnings = await reconnected.settingWarnings()
    await reconnected.close()
    const slow =
      'is off: the server vacuums and analyzes no table, so queries become slow. Set it to on and reload the server'
    expect(warnings.filter((text) => text.includes('vacuum'))).toEqual([
      ...(rows[0]?.autovacuum === 'off' ? [`autovacuum ${slow}`] : []),
      `track_counts ${slow}`,
    ])
  },
)
