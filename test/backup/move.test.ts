/** @module-tag long */

import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { checkLoaded } from '../../src/backup/check-filled.ts'
import { listTables } from '../../src/backup/copied-tables.ts'
import {
  type DatabaseParts,
  type Part,
  withDatabaseParts,
} from '../../src/backup/database-parts.ts'
import { loadInto } from '../../src/backup/fill-database.ts'
import type { Database } from '../../src/db/database.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import { asClientName } from '../../src/domain/client-name.ts'
import type { EncryptionKey } from '../../src/domain/encryption.ts'
import { DeliveryWorker } from '../../src/flows/deliver/delivery-worker.ts'
import { EncryptionKeysError } from '../../src/payments/encryption/check-encryption-keys.ts'
import { insertClosing } from '../../src/repositories/closings/closing-queries.ts'
import { walkDue } from '../../src/repositories/flows/due-deliveries.ts'
import { leading } from '../flows/deliver-support.ts'
import {
  nameInRun,
  needsPostgres,
  openEmbedded,
  openTestDatabase,
  postgresUrl,
} from '../support/database.ts'
import { seedEncrypted } from '../support/encrypted-rows.ts'
import { newPgliteTemplate } from '../support/pglite-template.ts'
import { dropDatabase, onServer, urlOf } from '../support/postgres-template.ts'
import { insertUnusualRows } from '../support/unusual-rows.ts'

const key: EncryptionKey = { id: 'k1', key: randomBytes(32) }
const atHand = { keys: [key], source: 'the test', lost: [] }
const silent = { info: () => {}, warn: () => {}, error: () => {} }
const about = { version: '0.1.0', takenAt: '2026-11-22T03:04:05.000Z' }

let source: Database
const closers: (() => Promise<void>)[] = []

beforeAll(async () => {
  source = await openTestDatabase()
  await seedEncrypted(source, [key], 'acme')
  await seedEncrypted(source, [key], 'ñandú')
  await insertUnusualRows(source, 5_000)
  await insertChain(source)
})
afterAll(async () => {
  for (const close of closers.reverse()) await close()
  await source?.close()
})

/** Two closings of a box. The second refers to the first, and comes before it by its id. */
async function insertChain(database: Database): Promise<void> {
  const at = (hour: number) => new Date(Date.UTC(2026, 10, 21, hour))
  const spans = [
    ['ffffffff-0000-4000-8000-000000000000', at(12), at(18)],
    ['00000000-0000-4000-8000-000000000000', at(18), at(22)],
  ] as const
  await database.transaction(async (trx) => {
    for (const [id, from, to] of spans) {
      await insertClosing(trx, {
        id,
        client: asClientName('acme'),
        place: 'caja:CAJA-1',
        caja_id: 'CAJA-1',
        sucursal_id: 'SUC-1',
        mp_user_id: 1,
        business_day: '2026-11-21',
        from_at: from,
        to_at: to,
        requested_from: from,
        requested_to: to,
        time_zone: 'UTC',
        declared: {},
        created_at: to,
        next_check_at: to,
      })
    }
  })
}

/** Fills `target` from the source, or from what `change` makes of its parts. */
const load = (
  target: Database,
  change: (parts: DatabaseParts) => DatabaseParts = (parts) => parts,
  keys: Parameters<typeof checkLoaded>[1] = atHand,
) =>
  source.maintenance((db) =>
    withDatabaseParts(db, about, (parts) =>
      loadInto(target, change(parts), (trx) => checkLoaded(trx, keys)),
    ),
  )

/** A database without a table, of the kind that the tests run on. */
async function openEmpty(): Promise<Database> {
  const name = nameInRun('copy')
  const database = postgresUrl
    ? await onServer(postgresUrl, async (client) => {
        await client.query(`create database ${name}`)
        return openDatabase({ databaseUrl: urlOf(postgresUrl ?? '', name) })
      })
    : await openDatabase({ inMemory: true, loadDataDir: await newPgliteTemplate() })
  closers.push(async () => {
    await database.close()
    if (postgresUrl) await dropDatabase(postgresUrl, name)
  })
  return database
}

/** Every row of every table, as text. */
async function contentOf(database: Database): Promise<Record<string, string[]>> {
  const content: Record<string, string[]> = {}
  for (const { name } of await listTables(database.db)) {
    const { rows } = await sql<{ row: string }>`
      select t::text as row from ${sql.id(name)} t order by t::text collate "C"`.execute(
      database.db,
    )
    content[name] = rows.map(({ row }) => row)
  }
  return content
}

async function tablesOf(database: Database): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select format('%I.%I', schemaname, tablename) as name from pg_tables
    where schemaname not in ('pg_catalog', 'information_schema')`.execute(database.db)
  return rows.map(({ name }) => name)
}

test('every table of a running service is copied, except the list of migrations', async () => {
  const copied = (await listTables(source.db)).map(({ name }) => `public.${name}`)
  const left = (await tablesOf(source)).filter((name) => !copied.includes(name))
  expect(left.toSorted()).toEqual(['public.kysely_migration', 'public.kysely_migration_lock'])
})

describe('a database that is not filled from another one', () => {
  let target: Database
  beforeAll(async () => {
    target = await openEmpty()
  })

  test('rows that do not match their counts are refused and fill nothing', async () => {
    async function* lying(parts: DatabaseParts): AsyncGenerator<Part> {
      for await (const part of parts) {
        yield 'rows' in part && part.table === 'settings'
          ? { ...part, rows: part.rows.slice(1) }
          : part
      }
    }
    await expect(load(target, lying)).rejects.toThrow(/settings: \d+ rows/)
    expect(await tablesOf(target)).toEqual([])
  })

  test('a copy of another version is refused by name', async () => {
    async function* newer(parts: DatabaseParts): AsyncGenerator<Part> {
      for await (const part of parts) {
        if (!('header' in part)) yield part
        else {
          const migrations = [...part.header.migrations, '9999_later.sql']
          yield { header: { ...part.header, migrations, version: '9.0.0' } }
        }
      }
    }
    await expect(load(target, newer)).rejects.toThrow(/9\.0\.0.*9999_later\.sql/)
    expect(await tablesOf(target)).toEqual([])
  })

  test('a copy with values of a missing key is refused, and fills nothing', async () => {
    const other = { ...atHand, keys: [{ id: 'k2', key: randomBytes(32) }] }
    const attempt = load(target, undefined, other)
    await expect(attempt).rejects.toBeInstanceOf(EncryptionKeysError)
    expect(await tablesOf(target)).toEqual([])
  })
})

describe('a database that was filled from another one', () => {
  let target: Database
  let loaded: Awaited<ReturnType<typeof load>>
  beforeAll(async () => {
    target = await openEmpty()
    loaded = await load(target)
  })

  test('it has every row, its sequences continue, and its audit log verifies', async () => {
    const { totals, checked } = loaded
    const content = await contentOf(source)
    expect(await contentOf(target)).toEqual(content)
    expect(totals.tables.flow_polls?.rows).toBe(5_000)
    expect(content.webhook_log?.length).toBe(3)
    expect(checked?.valid).toBe(true)
    const { entries = 0, unsealed = 0 } = checked ?? {}
    expect(entries + unsealed).toBe(content.activity_log?.length)
    await insertStrangePoll(target)
    // What keeps the audit log append-only works again.
    await expect(sql`delete from activity_log`.execute(target.db)).rejects.toThrow()
  })

  test('a waiting delivery is sent from there', async () => {
    const tried = Promise.withResolvers<string>()
    const owedTo = { flow: 'articulos', destination: 'tienda' }
    const deps = { leader: leading, log: silent, pollMs: 1_000, sleep: wait }
    const worker = new DeliveryWorker(deps, {
      concurrency: 1,
      admit: () => ({ starts: 1, waitMs: 0 }),
      walk: () => {
        const walk = walkDue(target, owedTo, 3600_000)
        return {
          next: async (limit) => (await walk.next(limit)).map((row) => ({ pk: row.pk, row })),
        }
      },
      load: async () => [],
      delayDeliveries: async () => {},
      attempt: async ([owed]) => [tried.resolve(owed?.pk ?? '')],
      lost: async () => {},
      save: async () => [],
    })
    expect(await tried.promise).toBe('A|1')
    await worker.stop(1_000)
  })

  test('it is refused when it is to be filled again, and stays as it is', async () => {
    const before = await contentOf(target)
    await expect(load(target)).rejects.toThrow(/not empty/)
    expect(await contentOf(target)).toEqual(before)
  })
})

test.skipIf(!postgresUrl)(
  `the rows of an embedded database are the same on PostgreSQL, and back (${needsPostgres})`,
  async () => {
    const embedded = await openEmbedded()
    closers.push(() => embedded.close())
    await seedEncrypted(embedded, [key])
    await insertUnusualRows(embedded)
    const target = await openEmpty()
    const there = await withDatabaseParts(embedded.db, about, (parts) =>
      loadInto(target, parts, (trx) => checkLoaded(trx, atHand)),
    )
    expect(there.checked?.valid).toBe(true)
    const back = await openDatabase({ inMemory: true, loadDataDir: await newPgliteTemplate() })
    closers.push(() => back.close())
    const again = await target.maintenance((db) =>
      withDatabaseParts(db, about, (parts) => loadInto(back, parts, async () => {})),
    )
    expect(again.totals).toEqual(there.totals)
    expect(await contentOf(back)).toEqual(await contentOf(embedded))
  },
  60_000,
)

async function insertStrangePoll(database: Database): Promise<void> {
  const { rows } = await sql<{ id: number }>`
    insert into flow_polls (flow, kind, started_at, duration_ms, rows_read, changes)
    values ('articulos', 'full', now(), 1, 1, 1) returning id`.execute(database.db)
  expect(rows).toEqual([{ id: 5_001 }])
}
