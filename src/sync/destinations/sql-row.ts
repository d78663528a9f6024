import type { DeliveryJob } from '../types.ts'
import { asObject, kindOfValue } from './result.ts'
import type { SqlRow, SqlTarget, SqlValue } from './sql-statements.ts'

type Problem = { problem: string }

/** PostgreSQL takes 65,535 parameters in a statement, SQL Server 2,100; no table is that wide. */
const maxColumns = 1_000
const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$/

/** The row of a mapped object: a column per field, lists and objects as JSON text. */
export function rowOf(target: SqlTarget, body: unknown): { row: SqlRow } | Problem {
  const fields = asObject(body)
  if (!fields) return { problem: `a row needs an object, the mapping gave ${kindOfValue(body)}` }
  const row = new Map<string, SqlValue>()
  for (const [name, value] of Object.entries(fields)) row.set(name, toSql(target, value))
  if (row.size > maxColumns) return { problem: `a row has at most ${maxColumns} columns` }
  const missing = target.upsertKey.filter((name) => (row.get(name) ?? null) === null)
  if (missing.length > 0) {
    return { problem: `the mapping gave no value for the key: ${missing.join(', ')}` }
  }
  return { row }
}

/**
 * The key values of a row that is to go: from the mapped object, or, when nothing was mapped, the item's own key, if both
 * have the same number of parts.
 */
export function deletedKey(target: SqlTarget, job: DeliveryJob): { key: SqlValue[] } | Problem {
  const { upsertKey } = target
  if (job.body === undefined || job.body === null) {
    if (job.key.length === upsertKey.length) return { key: [...job.key] }
    return { problem: `the item has ${job.key.length} key values, upsertKey ${upsertKey.length}` }
  }
  const fields = asObject(job.body) ?? {}
  const key = upsertKey.map((name) =>
    toSql(target, Object.hasOwn(fields, name) ? fields[name] : null),
  )
  const missing = upsertKey.filter((_, index) => key[index] === null)
  if (missing.length === 0) return { key }
  return { problem: `the mapping gave no value for the key: ${missing.join(', ')}` }
}

function toSql({ driver }: SqlTarget, value: unknown): SqlValue {
  if (value === undefined || value === null) return null
  if (typeof value === 'object') return JSON.stringify(value)
  // MySQL and MariaDB refuse the Z of an ISO date; the connection is in UTC.
  if (driver === 'mysql' && typeof value === 'string' && instant.test(value)) {
    const date = new Date(value)
    return Number.isNaN(date.getTime()) ? value : date
  }
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
    return value
  }
  return String(value)
}
