import type { Reason } from '../../texts/reason.ts'
import { foldIdentity } from '../item/fold-identity.ts'
import { connectionLimit } from '../net/connection-limit.ts'
import { refuseMetadataHost } from '../net/database-host.ts'
import type { DeliveryJob, DeliveryResult, Destination } from '../types.ts'
import { aborted, postponed, refused, withheld } from './delivery-result.ts'
import { type SqlClient, type SqlClientSettings, WithheldError } from './sql-client.ts'
import { isConflict, judgeSqlError } from './sql-errors.ts'
import { openPostgres } from './sql-postgres.ts'
import { deletedKey, rowOf } from './sql-row.ts'
import {
  checkNames,
  IdentifierError,
  type SqlColumns,
  type SqlKey,
  type SqlRow,
  type SqlTarget,
} from './statements/sql-statement.ts'

type Opener = (target: SqlTarget, settings: SqlClientSettings) => SqlClient

/** Loaded on first use: they would double the start time of the service, and so of every till. */
const openers: Record<SqlTarget['driver'], () => Opener | Promise<Opener>> = {
  postgres: () => openPostgres,
  mysql: async () => (await import('./sql-mysql.ts')).openMysql,
  mssql: async () => (await import('./sql-mssql.ts')).openMssql,
}

/**
 * Keeps a table equal to the items: one column per mapped field, one row per `upsertKey`. Writing a row again changes nothing,
 * so a delivery may be repeated. Up to `batch` rows go into one statement. PostgreSQL needs a unique index on the key; the
 * others should have one.
 *
 * @throws IdentifierError when the table or a key column has a name that the database cannot use.
 */
export function openSqlDestination(
  target: SqlTarget,
  settings: SqlClientSettings & { batch: number },
): Destination {
  checkNames(target.driver, [...target.table.split('.'), ...target.upsertKey])
  let opened: Promise<SqlClient> | undefined
  let columns: SqlColumns | undefined
  const connections = connectionLimit(target.driver, settings.url, 'write')
  connections.raise(settings.connections)
  const open = async () => (await openers[target.driver]())(target, settings)

  /** Runs `work` on a connection. Calls `onConflict` when other rows caused the failure. */
  const connected = async (
    names: readonly string[],
    signal: AbortSignal,
    work: (client: SqlClient) => Promise<DeliveryResult>,
    onConflict = () => {},
  ): Promise<DeliveryResult> => {
    let release: () => void
    try {
      release = await connections.acquire(signal)
    } catch {
      return postponed({ code: 'TOO_MANY_CONNECTIONS' }, { outage: false })
    }
    try {
      await refuseMetadataHost(target.driver, settings.url)
      opened ??= open()
      const client = await opened
      columns ??= await client.columns()
      return await work(client)
    } catch (error) {
      if (error instanceof WithheldError) return withheld()
      if (isConflict(target.driver, error)) onConflict()
      return judgeSqlError(target.driver, error, names)
    } finally {
      release()
    }
  }

  const deliver = async (job: DeliveryJob, signal: AbortSignal): Promise<DeliveryResult> => {
    // After this check the signal is ignored: only the statement's own limits end it, because only then its outcome is
    // known.
    if (signal.aborted) return aborted()
    // Errors that show without the database are returned without a query.
    const first = writeOf(target, job, columns)
    if ('problem' in first) return refused(first.problem)
    const names = 'row' in first ? [...first.row.keys()] : target.upsertKey
    return await connected(names, signal, async (client) => {
      const made = writeOf(target, job, columns)
      if ('problem' in made) return refused(made.problem)
      await ('row' in made
        ? client.upsert([made.row], job.mayStart)
        : client.remove([made.key], job.mayStart))
      return { ok: true }
    })
  }

  /** Writes several jobs with one statement for each set of columns, within the statement's limit of values. */
  const deliverTogether = async (
    jobs: readonly DeliveryJob[],
    signal: AbortSignal,
  ): Promise<readonly DeliveryResult[] | 'apart'> => {
    if (signal.aborted) return jobs.map(aborted)
    const results = new Map<DeliveryJob, DeliveryResult>()
    let hasConflict = false
    const failed = await connected(
      [],
      signal,
      async (client) => {
        const writes = new Map<string, Write[]>()
        for (const job of jobs) {
          const made = writeOf(target, job, columns)
          if ('problem' in made) {
            results.set(job, refused(made.problem))
            continue
          }
          const key = 'row' in made ? shapeOf(made.row) : ''
          const others = writes.get(key)
          if (others) others.push({ job, made })
          else writes.set(key, [{ job, made }])
        }
        for (const part of [...writes.values()].flatMap((same) => inParts(target, same))) {
          if (signal.aborted) return aborted()
          await writePart(client, part)
          for (const { job } of part) results.set(job, { ok: true })
        }
        return { ok: true }
      },
      () => {
        hasConflict = true
      },
    )
    const isRowFailure = !failed.ok && (!failed.retryable || hasConflict)
    if (isRowFailure && results.size < jobs.length) {
      // It is unknown which row failed. Writing the other rows again does no harm.
      return jobs.length > 1 ? 'apart' : [failed]
    }
    return jobs.map((job) => results.get(job) ?? failed)
  }

  return {
    deliver,
    ...(settings.batch > 1 && {
      batches: { most: () => settings.batch, deliver: deliverTogether },
    }),
    refusalOf: (job) => problemOf(target, job, columns),
    close: async () => (await opened)?.close(),
  }
}

/** A key of the row's columns. A name never contains NUL, because it would have been refused. */
function shapeOf(row: SqlRow): string {
  return [...row]
    .map(([name, value]) => `${name}\0${value === undefined ? 'default' : ''}`)
    .join('\0')
}

type Made = { row: SqlRow } | { key: SqlKey }
type Write = { job: DeliveryJob; made: Made }

async function writePart(client: SqlClient, part: readonly Write[]): Promise<void> {
  // All jobs are called, because each call records that its item may have arrived.
  const mayStart = () => part.map(({ job }) => job.mayStart()).every(Boolean)
  const rows = part.flatMap(({ made }) => ('row' in made ? [made.row] : []))
  if (rows.length > 0) await client.upsert(rows, mayStart)
  else {
    const keys = part.flatMap(({ made }) => ('key' in made ? [made.key] : []))
    await client.remove(keys, mayStart)
  }
}

/** Maximum values of one statement: PostgreSQL and MySQL count them with 16 bits, SQL Server allows 2,100. */
const mostValues = { postgres: 60_000, mysql: 60_000, mssql: 2_000 } as const
/** SQL Server's limit of rows after `values`. */
const mostRows = 1_000

/** No two rows of a part have one key: PostgreSQL and SQL Server refuse a statement that changes a row twice. */
function inParts({ driver, upsertKey }: SqlTarget, writes: readonly Write[]): Write[][] {
  const [first] = writes
  if (!first) return []
  // On MySQL each key value may be sent twice.
  const width = 'row' in first.made ? first.made.row.size : 2 * first.made.key.length
  const most = Math.max(1, Math.min(mostRows, Math.floor(mostValues[driver] / width)))
  const parts: Write[][] = []
  let part: Write[] = []
  let keys = new Set<string>()
  for (const write of writes) {
    const key = keyOf(upsertKey, write.made)
    if (part.length === 0 || part.length === most || keys.has(key)) {
      part = []
      keys = new Set()
      parts.push(part)
    }
    part.push(write)
    keys.add(key)
  }
  return parts
}

/** The key of a write, as databases may compare it. */
function keyOf(upsertKey: readonly string[], made: Made): string {
  const values = 'row' in made ? upsertKey.map((name) => made.row.get(name)) : made.key
  return values.map((value) => foldIdentity(String(value))).join('\0')
}

function problemOf(
  target: SqlTarget,
  job: DeliveryJob,
  columns: SqlColumns | undefined,
): Reason | undefined {
  const made = writeOf(target, job, columns)
  return 'problem' in made ? made.problem : undefined
}

/** The row to write or the key to delete, or the reason why there is none. */
function writeOf(
  target: SqlTarget,
  job: DeliveryJob,
  columns: SqlColumns | undefined,
): Made | { problem: Reason } {
  if (job.kind === 'delete') return deletedKey(target, job, columns)
  const made = rowOf(target, job.body, columns)
  if ('problem' in made) return made
  try {
    checkNames(target.driver, made.row.keys())
  } catch (error) {
    if (error instanceof IdentifierError) return { problem: error.why }
    throw error
  }
  return made
}
