import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import type { Trx } from '../db/database.ts'
import { liftLimits } from '../db/migrate.ts'
import type { CopiedTable } from './copied-tables.ts'

/** The number of rows of a table, and a number that any other content would change; the order of the rows does not matter. */
export type TableDigest = { rows: number; digest: string }

const bytesAtOnce = 1_000_000
const rowsAtOnce = 2_000
/** The batch size for a table before its row size is known. */
const firstRows = 20

/**
 * Makes all values of this transaction read alike on every server: the text of a row is compared, and another server
 * reads it. Also removes the time limits.
 */
export async function fixForms(trx: Trx): Promise<void> {
  await sql`
    set local timezone = 'UTC';
    set local datestyle = 'ISO, YMD';
    set local intervalstyle = 'postgres';
    set local bytea_output = 'hex';
    set local extra_float_digits = 1`.execute(trx)
  await liftLimits(trx)
}

/** The rows of a table, about a megabyte at a time, each as PostgreSQL writes a whole row: exact for every type and every column. */
export async function* readRows(trx: Trx, table: string): AsyncGenerator<string[]> {
  await sql`
    declare copied no scroll cursor for
    select whole_row::text as row from only ${sql.id(table)} as whole_row`.execute(trx)
  let read = 0
  let bytes = 0
  let limit = firstRows
  for (;;) {
    const fetched = await sql<{ row: string }>`fetch ${sql.lit(limit)} from copied`.execute(trx)
    const rows = fetched.rows.map(({ row }) => row)
    if (rows.length > 0) yield rows
    if (rows.length < limit) break
    read += rows.length
    bytes += rows.reduce((sum, row) => sum + row.length, 0)
    limit = Math.max(1, Math.min(rowsAtOnce, Math.floor((bytesAtOnce * read) / bytes)))
  }
  await sql`close copied`.execute(trx)
}

/** Writes rows from readRows. The table must have the same columns in the same order. */
export async function insertRows(
  trx: Trx,
  { name, columns }: CopiedTable,
  rows: readonly string[],
): Promise<void> {
  const values = columns.map((column) => sql`(given.whole).${sql.id(column)}`)
  await sql`
    insert into ${sql.id(name)} (${sql.join(columns.map((column) => sql.id(column)))})
    overriding system value
    select ${sql.join(values)}
    from (select unnest(${rows}::text[])::${sql.id(name)} as whole offset 0) as given`.execute(trx)
}

export class Tallying {
  #rows = 0
  #sum = 0n

  add(rows: readonly string[]): void {
    for (const row of rows) {
      this.#rows += 1
      this.#sum += BigInt(`0x${createHash('sha256').update(row).digest('hex')}`)
    }
  }

  /** A sum of the rows' hashes: equal rows count as often as they occur. */
  total(): TableDigest {
    const digest = BigInt.asUintN(256, this.#sum).toString(16).padStart(64, '0')
    return { rows: this.#rows, digest }
  }
}
