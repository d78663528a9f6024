import { afterAll, expect, test } from 'vitest'
import { openDatabase } from '../../src/db/database.ts'
import { needsPostgres, openEmbedded, openPostgresClone, postgresUrl } from '../support/database.ts'
import { onServer } from '../support/postgres-template.ts'

const closers: (() => Promise<void>)[] = []
afterAll(async () => {
  for (const close of closers) await close()
})

test('the embedded database reports that a power failure may lose data', async () => {
  const database = await openEmbedded()
  closers.push(database.close)
  expect(await database.durabilityWarnings()).toContain(
    'fsync is off: data may be lost when the power fails',
  )
})

test.skipIf(!postgresUrl)(
  `PostgreSQL settings without durability are reported by name (${needsPostgres})`,
  async () => {
    const { database, url } = await openPostgresClone(postgresUrl ?? '')
    closers.push(database.close)
    const before = await database.durabilityWarnings()
    expect(before.filter((text) => text.startsWith('synchronous_commit'))).toEqual([])
    const name = new URL(url).pathname.slice(1)
    await onServer(url, (client) =>
      client.query(`alter database ${name} set synchronous_commit = off`),
    )
    const reconnected = await openDatabase({ databaseUrl: url })
    const warnings = await reconnected.durabilityWarnings()
    await reconnected.close()
    expect(warnings).toContain('synchronous_commit is off: data may be lost when the power fails')
  },
)
