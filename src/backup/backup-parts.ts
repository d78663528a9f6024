import { z } from 'zod'
import type { Db, Trx } from '../db/database.ts'
import { OperatorError } from '../errors/operator-error.ts'
import { listTables, readMigrationLevel, readSequences } from './copied-tables.ts'
import { fixForms, readRows, type TableDigest, Tallying } from './table-rows.ts'

export const headerForm = z.object({
  /** Of the service that made the copy. */
  version: z.string(),
  /** Everything committed before is in it. */
  takenAt: z.string(),
  /** The migrations that had made its tables. */
  migrations: z.array(z.string()),
  /** In the order in which they are filled. */
  tables: z.array(z.object({ name: z.string(), columns: z.array(z.string()) })),
})
export const rowsForm = z.object({ table: z.string(), rows: z.array(z.string()) })
export const totalsForm = z.object({
  tables: z.record(z.string(), z.object({ rows: z.number(), digest: z.string() })),
  sequences: z.array(z.object({ name: z.string(), value: z.string() })),
})
export type Header = z.infer<typeof headerForm>
export type Totals = z.infer<typeof totalsForm>
/** A whole database in pieces: the header, rows table by table, and at the end the totals to compare. */
export type Part = { header: Header } | z.infer<typeof rowsForm> | { totals: Totals }
export type BackupParts = AsyncIterable<Part>

/** The copy cannot be made, or cannot be used as requested; `message` tells the operator why. Nothing was changed. */
export class CopyError extends OperatorError {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'CopyError'
  }
}

/**
 * Calls `work` with everything in the database at one moment, while others continue to write. On the embedded database
 * other users wait until `work` ends, so there must be none.
 */
export function withBackupParts<T>(
  db: Db,
  { version, takenAt }: Pick<Header, 'version' | 'takenAt'>,
  work: (source: BackupParts) => Promise<T>,
): Promise<T> {
  return db
    .transaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute((trx) => work(readDatabase(trx, version, takenAt)))
}

async function* readDatabase(trx: Trx, version: string, takenAt: string): AsyncGenerator<Part> {
  await fixForms(trx)
  const migrations = await readMigrationLevel(trx)
  if (migrations.length === 0) throw new CopyError('There is no tillbridge in this database')
  const tables = await listTables(trx)
  yield { header: { version, takenAt, migrations, tables } }
  const tallies: Record<string, TableDigest> = {}
  for (const { name } of tables) {
    const tallying = new Tallying()
    for await (const rows of readRows(trx, name)) {
      tallying.add(rows)
      yield { table: name, rows }
    }
    tallies[name] = tallying.total()
  }
  yield { totals: { tables: tallies, sequences: await readSequences(trx) } }
}
