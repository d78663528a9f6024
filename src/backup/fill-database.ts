import { isDeepStrictEqual } from 'node:util'
import { sql } from 'kysely'
import type { Database, Trx } from '../db/database.ts'
import { listMigrations, lockMigrations, migrateWithin } from '../db/migrate.ts'
import { type CopiedTable, listSelfReferences, listTables, setSequence } from './copied-tables.ts'
import {
  CopyError,
  type DatabaseParts,
  type Header,
  type Part,
  type Totals,
} from './database-parts.ts'
import { fixForms, insertRows, readRows, type TableDigest, Tallying } from './table-rows.ts'

export type Loaded<T> = {
  header: Header
  totals: Totals
  checked: T
}

/**
 * Fills an empty database from a copy, in one transaction: if the process is killed, the database stays empty. What was
 * stored is read again and compared with the totals of the copy, and `check` runs before the commit.
 *
 * @throws CopyError when the database is not empty, when the copy is of another version, and when anything differs.
 */
export async function loadInto<T>(
  target: Database,
  source: DatabaseParts,
  check: (trx: Trx) => Promise<T>,
): Promise<Loaded<T>> {
  return await target.maintenance((db) =>
    db.transaction().execute(async (trx) => {
      await fixForms(trx)
      await lockMigrations(trx)
      await requireEmpty(trx)
      const { header, totals } = await fill(trx, source)
      for (const { name } of await listTables(trx)) await sql`analyze ${sql.id(name)}`.execute(trx)
      return { header, totals, checked: await check(trx) }
    }),
  )
}

const namedAtMost = 5

/** With a wrong address there may be tables of another program. */
async function requireEmpty(trx: Trx): Promise<void> {
  const { rows } = await sql<{ name: string }>`
    select format('%I.%I', nspname, relname) as name
    from pg_class c join pg_namespace n on n.oid = relnamespace
    where relkind in ('r', 'p', 'v', 'm', 'f', 'S') and nspname = current_schema()
      and not exists (select from pg_depend where objid = c.oid and deptype = 'e')
    order by relkind = 'r' desc, 1 limit ${namedAtMost}`.execute(trx)
  if (rows.length === 0) return
  const names = rows.map(({ name }) => name).join(', ')
  throw new CopyError(
    `The database to be filled is not empty (${names}, ...). Nothing was changed. Name a new one`,
  )
}

async function alterKeys(
  trx: Trx,
  keys: readonly { table: string; name: string }[],
  how: 'deferrable initially deferred' | 'not deferrable',
): Promise<void> {
  for (const { table, name } of keys) {
    await sql`alter table ${sql.id(table)} alter constraint ${sql.id(name)} ${sql.raw(how)}`.execute(
      trx,
    )
  }
}

async function fill(trx: Trx, source: DatabaseParts): Promise<{ header: Header; totals: Totals }> {
  const parts = source[Symbol.asyncIterator]()
  const next = async (): Promise<Part | undefined> => (await parts.next()).value
  try {
    const first = await next()
    if (!first || !('header' in first)) throw new CopyError('The copy does not begin with a header')
    const { header } = first
    await makeTables(trx, header)
    const tables = new Map(header.tables.map((table) => [table.name, table]))
    await sql.raw(inAll(header, (name) => `alter table ${name} disable trigger user`)).execute(trx)
    const ownKeys = await listSelfReferences(trx)
    await alterKeys(trx, ownKeys, 'deferrable initially deferred')
    // The copy has the rows that the migrations insert, in their current state.
    const backwards = { ...header, tables: header.tables.toReversed() }
    await sql.raw(inAll(backwards, (name) => `delete from ${name}`)).execute(trx)
    for (let part = await next(); part; part = await next()) {
      if ('totals' in part) {
        await sql`set constraints all immediate`.execute(trx)
        await alterKeys(trx, ownKeys, 'not deferrable')
        await compare(trx, header, part.totals)
        for (const sequence of part.totals.sequences) await setSequence(trx, sequence)
        await sql
          .raw(inAll(header, (name) => `alter table ${name} enable trigger user`))
          .execute(trx)
        return { header, totals: part.totals }
      }
      const table = 'table' in part ? tables.get(part.table) : undefined
      if (!table || !('rows' in part)) throw new CopyError('The copy has rows of an unknown table')
      await insertRows(trx, table, part.rows)
    }
    throw new CopyError('The copy ends before its end')
  } finally {
    await parts.return?.()
  }
}

/** The tables of this version: rows of another one fit no others. */
async function makeTables(trx: Trx, { migrations, tables, version }: Header): Promise<void> {
  if (!isDeepStrictEqual(migrations, await listMigrations())) {
    throw new CopyError(
      `The copy was made by another version of the service (${version}, schema ${migrations.at(-1)}). Start this version with it once, or install that one`,
    )
  }
  await migrateWithin(trx)
  const made = await listTables(trx)
  const layout = (list: CopiedTable[]) =>
    JSON.stringify(list.map(({ name, columns }) => [name, columns]).toSorted())
  if (layout(made) !== layout(tables)) {
    throw new CopyError('The tables of the copy are not those that its migrations make')
  }
}

async function compare(trx: Trx, { tables }: Header, totals: Totals): Promise<void> {
  const differing: string[] = []
  for (const { name } of tables) {
    const stored = await tallyOf(trx, name)
    const given = totals.tables[name]
    if (stored.rows !== given?.rows || stored.digest !== given.digest) {
      differing.push(`${name}: ${given?.rows ?? 0} rows were copied, ${stored.rows} are there`)
    }
  }
  if (differing.length === 0) return
  throw new CopyError(`What was stored is not what was copied: ${differing.join('; ')}`)
}

async function tallyOf(trx: Trx, table: string): Promise<TableDigest> {
  const tallying = new Tallying()
  for await (const rows of readRows(trx, table)) tallying.add(rows)
  return tallying.total()
}

function inAll({ tables }: Header, statement: (name: string) => string): string {
  return tables.map(({ name }) => statement(`"${name}"`)).join('; ')
}
