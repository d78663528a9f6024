import { readFileSync } from 'node:fs'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { settings } from '../../src/app/config-schema.ts'
import type { Database } from '../../src/db/database.ts'
import { openTestDatabase } from '../support/database.ts'

/** docs/internals/retention.md names every table, how it grows and what removes its rows. */

const page = readFileSync(new URL('../../docs/internals/retention.md', import.meta.url), 'utf8')
const rows = [...page.matchAll(/^\| `(\w+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$/gm)].map(
  ([, table = '', grows = '', kept = '', removed = '']) => ({ table, grows, kept, removed }),
)

let database: Database
beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

test('the page has each table of the migrated database once', async () => {
  const { rows: tables } = await sql<{ name: string }>`
    select tablename as name from pg_tables where schemaname = current_schema()`.execute(
    database.db,
  )
  expect(rows.map(({ table }) => table).toSorted()).toEqual(
    tables.map(({ name }) => name).toSorted(),
  )
})

test('a table whose rows are never removed is marked as kept for ever', () => {
  for (const { table, kept, removed } of rows) {
    expect([table, kept.startsWith('for ever')]).toEqual([
      table,
      removed.startsWith('nothing') || table === 'invitations',
    ])
  }
})

test('the page names existing settings with their defaults', () => {
  const named = [...page.matchAll(/^\| `(KEEP_\w+)` \| (\d+|none) \|/gm)].map(([, name, value]) => [
    name,
    value === 'none' ? '' : value,
  ])
  expect(named).toEqual(
    settings.filter(({ name }) => name.startsWith('KEEP_')).map((one) => [one.name, one.default]),
  )
})
