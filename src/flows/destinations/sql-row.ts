import type { Reason } from '../../texts/reason.ts'
import type { DeliveryJob } from '../types.ts'
import { asObject, kindOfMade } from './delivery-result.ts'
import type { SqlColumns, SqlRow, SqlTarget, SqlValue } from './statements/sql-statement.ts'

type Problem = { problem: Reason }

/** PostgreSQL allows 65,535 parameters in a statement, SQL Server 2,100. No table has as many columns. */
const maxColumns = 1_000
const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$/

/** Used when the table's columns are unknown: they get the values as they are. */
const unknownColumns: SqlColumns = new Map()

/**
 * The row of a mapped object: one column per field. Lists and objects become JSON text, except in array columns. A field that
 * is `undefined` sets its column to the default.
 */
export function rowOf(
  target: SqlTarget,
  body: unknown,
  columns = unknownColumns,
): { row: SqlRow } | Problem {
  const fields = asObject(body)
  if (!fields) return { problem: { code: 'NO_OBJECT', data: { kind: kindOfMade(body) } } }
  const row = new Map<string, SqlValue | undefined>()
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) {
      row.set(name, undefined)
      continue
    }
    const made = columnValue(target, columns, name, value)
    if ('problem' in made) return made
    row.set(name, made.value)
  }
  if (row.size > maxColumns) {
    return { problem: { code: 'TOO_MANY_COLUMNS', data: { most: maxColumns } } }
  }
  const missing = target.upsertKey.filter((name) => (row.get(name) ?? null) === null)
  if (missing.length > 0) return withoutValue(missing)
  const blank = target.upsertKey.find((name) => isBlank(row.get(name)))
  return blank === undefined ? { row } : emptyKey(blank)
}

/** A blank key would name no item, or all items without a value. */
function isBlank(value: unknown): boolean {
  return typeof value === 'string' && value.trim() === ''
}

function emptyKey(column: string): Problem {
  return { problem: { code: 'KEY_EMPTY', data: { column } } }
}

function withoutValue(columns: readonly string[]): Problem {
  return { problem: { code: 'KEY_WITHOUT_VALUE', data: { columns: columns.join(', ') } } }
}

/** The key values of the row to delete, from the body of its delete. */
export function deletedKey(
  target: SqlTarget,
  job: DeliveryJob,
  columns = unknownColumns,
): { key: SqlValue[] } | Problem {
  const { upsertKey } = target
  const fields = asObject(job.body) ?? {}
  const values = upsertKey.map(
    (name) => (Object.hasOwn(fields, name) ? fields[name] : null) ?? null,
  )
  const missing = upsertKey.filter((_, index) => values[index] === null)
  if (missing.length > 0) return withoutValue(missing)
  const blank = upsertKey.find((_, index) => isBlank(values[index]))
  return blank === undefined ? keyValues(target, columns, values) : emptyKey(blank)
}

function keyValues(
  target: SqlTarget,
  columns: SqlColumns,
  values: readonly unknown[],
): { key: SqlValue[] } | Problem {
  const key: SqlValue[] = []
  for (const [index, name] of target.upsertKey.entries()) {
    const made = columnValue(target, columns, name, values[index])
    if ('problem' in made) return made
    key.push(made.value)
  }
  return { key }
}

/** The declared encoding decides about text for bytes, because a base64 text is also valid plain text. */
function columnValue(
  target: SqlTarget,
  columns: SqlColumns,
  name: string,
  value: unknown,
): { value: SqlValue } | Problem {
  const kind = columns.get(name)
  if (kind === 'list' && Array.isArray(value)) return { value }
  if (kind === 'json' && value !== null) return { value: jsonText(value) }
  const made = toSql(target, value, kind === 'text')
  const form = target.binary?.[name]
  if (made === null || (kind !== 'bytes' && form === undefined)) return { value: made }
  if (form === undefined) {
    return { problem: { code: 'BYTES_WITHOUT_FORM', data: { column: name } } }
  }
  const text = String(made)
  if (form === 'text') return { value: Buffer.from(text) }
  const bytes = Buffer.from(text, 'base64')
  if (bytes.toString('base64') === text) return { value: bytes }
  return { problem: { code: 'NO_BASE64', data: { column: name } } }
}

/** A text becomes a JSON text, unless it contains a whole object or list, as some sources give it. */
function jsonText(value: unknown): string {
  if (typeof value === 'bigint') return String(value)
  if (typeof value !== 'string') return JSON.stringify(value)
  return isWholeJson(value) ? value : JSON.stringify(value)
}

function isWholeJson(text: string): boolean {
  if (!/^\s*[[{]/.test(text)) return false
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function toSql({ driver }: SqlTarget, value: unknown, isForText: boolean): SqlValue {
  if (value === undefined || value === null) return null
  if (typeof value === 'object') return JSON.stringify(value)
  // A driver would send it as a float, which the server writes in its own way.
  if (typeof value === 'number' && isForText) return String(value)
  // SQL Server takes one type for a column of several rows, so all rows have texts. It reads no exponent as a decimal.
  if (typeof value === 'number' && driver === 'mssql') return plainNumber(value)
  if (typeof value === 'boolean' && driver === 'mssql') return value ? '1' : '0'
  // MySQL and MariaDB refuse the Z of an ISO date; the connection uses UTC.
  if (driver === 'mysql' && !isForText && typeof value === 'string' && instant.test(value)) {
    const date = new Date(value)
    if (Number.isNaN(date.getTime())) return value
    // The driver's own date format has only milliseconds.
    return /\.\d{4}/.test(value) ? value.slice(0, -1).replace('T', ' ') : date
  }
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
    return value
  }
  return String(value)
}

/** A number without an exponent, unless it is smaller than a decimal can be. */
function plainNumber(value: number): string {
  const text = String(value)
  const [, sign = '', digits = '', exponent] = /^(-?)([\d.]+)e([+-]\d+)$/.exec(text) ?? []
  if (exponent === undefined) return text
  if (Number(exponent) > 0) return String(BigInt(value))
  const zeros = -Number(exponent) - 1
  return zeros > 100 ? text : `${sign}0.${'0'.repeat(zeros)}${digits.replace('.', '')}`
}
