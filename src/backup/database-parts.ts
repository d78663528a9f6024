import type { Db, Trx } from '../db/database.ts'
import { OperatorError } from '../errors/operator-error.ts'
import {
  type CopiedTable,
  listTables,
  readMigrationLevel,
  readSequences,
  type SequencePosition,
} from './copied-tables.ts'
import { fixForms, readRows, type TableDigest, Tallying } from './table-rows.ts'

export type Header = {
  /** Of the service that makes the copy. */
  version: string
  /** Everything committed before is in it. */
  takenAt: string
  /** The migrations that had made its tables. */
  migrations: string[]
  /** In the order in which they are filled. */
  tables: CopiedTable[]
}
export type Totals = { tables: Record<string, TableDigest>; sequences: SequencePosition[] }
/** A whole database in pieces: the header, rows table by table, and at the end the totals to compare. */
export type Part = { header: Header } | { table: string; rows: string[] } | { totals: Totals }
export type DatabaseParts = AsyncIterable<Part>

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
export function withDatabaseParts<T>(
  db: Db,
  { version, takenAt }: Pick<Header, 'version' | 'takenAt'>,
  work: (source: DatabaseParts) => Promise<T>,
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
