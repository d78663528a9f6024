import type { DeliveryJob, Destination } from '../types.ts'
import { postponed, refused } from './result.ts'
import type { SqlClient, SqlClientSettings } from './sql-client.ts'
import { judgeSqlError } from './sql-errors.ts'
import { openPostgres } from './sql-postgres.ts'
import { deletedKey, rowOf } from './sql-row.ts'
import {
  IdentifierError,
  quoteIdentifier,
  quoteTable,
  type SqlRow,
  type SqlTarget,
  type SqlValue,
} from './sql-statements.ts'

type Opener = (target: SqlTarget, settings: SqlClientSettings) => SqlClient

/** Loaded when first needed: they would double the time in which the service, and so every till, comes up. */
const openers: Record<SqlTarget['driver'], () => Opener | Promise<Opener>> = {
  postgres: () => openPostgres,
  mysql: async () => (await import('./sql-mysql.ts')).openMysql,
  mssql: async () => (await import('./sql-mssql.ts')).openMssql,
}

/**
 * Keeps a table equal to the items: a column per mapped field, one row per `upsertKey`. Writing the same row again changes
 * nothing, so a delivery may be repeated. PostgreSQL needs a unique index on the key; the others should have one.
 *
 * @throws IdentifierError when the table or a column of the key has a name that the database cannot hold.
 */
export function openSqlDestination(target: SqlTarget, settings: SqlClientSettings): Destination {
  quoteTable(target)
  for (const name of target.upsertKey) quoteIdentifier(target.driver, name)
  let opened: Promise<SqlClient> | undefined
  const open = async () => (await openers[target.driver]())(target, settings)
  return {
    deliver: async (job, signal) => {
      // Later a signal changes nothing: the statement's own limits end it, and only then its outcome is known.
      if (signal.aborted) return postponed('the delivery was given up', { outage: false })
      const made = writeOf(target, job)
      if ('problem' in made) return refused(made.problem)
      try {
        opened ??= open()
        const client = await opened
        await ('row' in made ? client.upsert(made.row) : client.remove(made.key))
        return { ok: true }
      } catch (error) {
        return judgeSqlError(target.driver, error)
      }
    },
    refusalOf(job) {
      const made = writeOf(target, job)
      return 'problem' in made ? made.problem : undefined
    },
    close: async () => (await opened)?.close(),
  }
}

/** The row to write or the key to delete, or why there is none. */
function writeOf(
  target: SqlTarget,
  job: DeliveryJob,
): { row: SqlRow } | { key: SqlValue[] } | { problem: string } {
  if (job.kind === 'delete') return deletedKey(target, job)
  const made = rowOf(target, job.body)
  if ('problem' in made) return made
  try {
    for (const name of made.row.keys()) quoteIdentifier(target.driver, name)
  } catch (error) {
    if (error instanceof IdentifierError) return { problem: error.message }
    throw error
  }
  return made
}
