import pg from 'pg'
import { ConnectionFileError } from '../../db/connection-files.ts'
import { codeOf } from '../../domain/error-code.ts'
import { RefusedAddressError } from '../../outbound/guarded-agent.ts'
import type { databases } from '../../texts/en/databases.ts'
import type { Reason } from '../../texts/reason.ts'
import { OwnDatabaseError } from '../net/postgres-connection.ts'
import type { DeliveryResult } from '../types.ts'
import { postponed, refused } from './delivery-result.ts'
import { ConnectError, SimilarKeyError } from './sql-client.ts'
import type { SqlDriver } from './statements/sql-statement.ts'

type Failed = Extract<DeliveryResult, { ok: false }>

/** Unique and foreign key violations. Error 547 of SQL Server is also a check violation. */
const conflicts = {
  postgres: new Set<unknown>(['23503', '23505']),
  mysql: new Set<unknown>([1062, 1451, 1452]),
  mssql: new Set<unknown>([547, 2601, 2627]),
} as const

/**
 * Whether other rows prevent the write, perhaps only for a moment. Items are written in no fixed order: a code that moves
 * between items exists twice meanwhile, and a referenced row may come later.
 */
export function isConflict(driver: SqlDriver, error: unknown): boolean {
  if (error instanceof SimilarKeyError) return true
  if (driver === 'postgres') return conflicts.postgres.has(codeOf(error))
  const { errno, number } = (error ?? {}) as Record<string, unknown>
  return conflicts[driver].has(driver === 'mysql' ? errno : number)
}

/**
 * Classifies a failed statement by SQLSTATE and error number only. Every error of the connection or server counts as an
 * outage, also a wrong password, because it does not concern the item.
 *
 * Reasons contain no values of the row. A server's message is shown only if it can only name columns, tables and constraints.
 */
export function judgeSqlError(
  driver: SqlDriver,
  error: unknown,
  columns: readonly string[] = [],
): Failed {
  const judged = judge(driver, error, columns)
  return isConflict(driver, error) ? postponed(judged.why, { outage: false }) : judged
}

function judge(driver: SqlDriver, error: unknown, columns: readonly string[]): Failed {
  // Every item would be refused in the same way, until an administrator changes the address.
  if (error instanceof RefusedAddressError) return postponed(error.why, { outage: true })
  if (error instanceof ConnectError) {
    const { cause } = error
    if (cause instanceof OwnDatabaseError) return postponed(cause.why, { outage: true })
    if (cause instanceof ConnectionFileError) {
      const data = { said: cause.message }
      return postponed({ code: 'CONNECTION_FILE', data }, { outage: true })
    }
    return noConnection(codeOf(cause))
  }
  if (error instanceof SimilarKeyError) {
    return refused({ code: 'ROW_LOOKS_ALIKE' })
  }
  if (driver === 'postgres') return judgePostgres(error, columns)
  return driver === 'mysql' ? judgeMysql(error, columns) : judgeMssql(error)
}

/** Reason codes with the SQLSTATE or number of an error, and the column or constraint where known. */
type SqlCode = Exclude<
  keyof typeof databases,
  | 'OWN_DATABASE'
  | 'ROW_LOOKS_ALIKE'
  | 'CONNECTION_FILE'
  | 'TOO_MANY_CONNECTIONS'
  | 'SQL_SAID'
  | 'DATABASE_SILENT'
>

// SQLSTATE classes, PostgreSQL manual, appendix A.
const postgresOutage = new Set(['08', '28', '3D', '53', '57', '58'])
const postgresBusy = new Set(['40001', '40P01', '55P03', '57014'])
const postgresTimeouts: Readonly<Record<string, SqlCode>> = {
  '55P03': 'LOCK_TIMEOUT',
  '57014': 'STATEMENT_CANCELLED',
}
const postgresCodes: Readonly<Record<string, SqlCode>> = {
  '22001': 'TEXT_TOO_LONG',
  '22003': 'NUMBER_TOO_LARGE',
  '22007': 'DATE_UNREADABLE',
  '22008': 'DATE_OUT_OF_RANGE',
  '22P02': 'VALUE_TYPE',
  '22P05': 'BAD_CHARACTER',
  '22021': 'BAD_CHARACTER',
  '23502': 'VALUE_MISSING',
  '23503': 'REFERENCE_MISSING',
  '23505': 'ROW_IN_THE_WAY',
  '23514': 'CHECK_FAILED',
  '42501': 'NO_WRITE_PERMISSION',
  '42P10': 'NO_UNIQUE_INDEX',
}

function judgePostgres(error: unknown, columns: readonly string[]): Failed {
  const state = codeOf(error)
  // The driver's own errors have a system code (EPIPE) or none.
  if (!(error instanceof pg.DatabaseError) || state === undefined) return noConnection(state)
  const code = `SQLSTATE ${state}`
  if (postgresBusy.has(state)) {
    const busy = postgresTimeouts[state] ?? 'DATABASE_BUSY'
    return postponed({ code: busy, data: { code } }, { outage: false })
  }
  if (postgresOutage.has(state.slice(0, 2)) || state === '25006') return notServed(code)
  const { constraint, message, where } = error
  const column = error.column ?? columns[parameterOf(where)]
  const data = { code, ...named('column', column), ...named('constraint', constraint) }
  const known = postgresCodes[state]
  if (known !== undefined) return refused({ code: known, data })
  // Class 42 concerns the statement, which contains only names and placeholders.
  return refused(state.startsWith('42') ? said(message, data) : { code: 'SQL_REFUSED', data })
}

// Error numbers: MySQL 8.4 "Server Error Message Reference", MariaDB "Error Codes".
const mysqlBusy = new Set([1205, 1213, 1317, 1969, 3024, 4031])
const mysqlTimeouts: Readonly<Record<number, SqlCode>> = {
  1205: 'LOCK_TIMEOUT',
  1969: 'STATEMENT_TIMEOUT',
  3024: 'STATEMENT_TIMEOUT',
}
const mysqlOutage = new Set([
  1021, 1037, 1038, 1041, 1053, 1114, 1152, 1158, 1159, 1160, 1161, 1226, 1290, 1792, 1836, 1927,
])
const mysqlCodes: Readonly<Record<number, SqlCode>> = {
  1062: 'ROW_IN_THE_WAY',
  1142: 'NO_WRITE_PERMISSION',
  1265: 'VALUE_TYPE',
  // An error of a comparison; only keys are compared.
  1267: 'BAD_KEY_CHARACTER',
  1292: 'VALUE_TYPE',
  1366: 'VALUE_TYPE',
}
/** Messages of these errors name only columns, tables and constraints. */
const mysqlNaming = new Set([1048, 1054, 1146, 1264, 1364, 1406, 1451, 1452, 3819, 4025])

function judgeMysql(error: unknown, columns: readonly string[]): Failed {
  const { errno, sqlState, message } = (error ?? {}) as Record<string, unknown>
  // Server errors have a SQLSTATE; driver errors do not.
  if (typeof errno !== 'number' || typeof sqlState !== 'string') return noConnection(codeOf(error))
  const code = `error ${errno}`
  if (mysqlBusy.has(errno)) {
    const busy = mysqlTimeouts[errno] ?? 'DATABASE_BUSY'
    return postponed({ code: busy, data: { code } }, { outage: false })
  }
  if (mysqlOutage.has(errno) || sqlState.startsWith('08')) return notServed(code)
  const known = mysqlCodes[errno]
  if (known !== undefined) {
    const data = { code, ...named('column', columnNamed(message, columns)) }
    return refused({ code: known, data })
  }
  return refused(
    mysqlNaming.has(errno) ? said(message, { code }) : { code: 'SQL_REFUSED', data: { code } },
  )
}

// Error numbers: "Database Engine events and errors", Microsoft Learn.
const mssqlBusy = new Set([1205, 1222, 3960, 41302, 41305, 41325])
const mssqlOutage = new Set([
  64, 233, 596, 601, 701, 802, 845, 921, 922, 923, 924, 927, 945, 976, 978, 983, 1105, 3906, 3908,
  6005, 8628, 8645, 8651, 9002, 10053, 10054, 10060, 10922, 10928, 10929, 10936, 40143, 40197,
  40501, 40540, 40544, 40549, 40550, 40551, 40552, 40553, 40613, 49918, 49919, 49920,
])
const mssqlCodes: Readonly<Record<number, SqlCode>> = {
  229: 'NO_WRITE_PERMISSION',
  241: 'DATE_UNREADABLE',
  245: 'VALUE_TYPE',
  2601: 'ROW_IN_THE_WAY_ALIKE',
  2627: 'ROW_IN_THE_WAY_ALIKE',
  2628: 'TEXT_TOO_LONG',
  8152: 'TEXT_TOO_LONG',
}
/** Messages of these errors name only columns, tables, types and constraints. */
const mssqlNaming = new Set([206, 207, 208, 257, 515, 544, 547, 8114, 8115])

function judgeMssql(error: unknown): Failed {
  const { number, message, code } = (error ?? {}) as Record<string, unknown>
  // Only server errors have EREQUEST and a number. ETIMEOUT of a request comes from the driver.
  if (code !== 'EREQUEST' || typeof number !== 'number') return noConnection(codeOf(error))
  const about = `error ${number}`
  if (mssqlBusy.has(number)) {
    const busy = number === 1222 ? 'LOCK_TIMEOUT' : 'DATABASE_BUSY'
    return postponed({ code: busy, data: { code: about } }, { outage: false })
  }
  if (mssqlOutage.has(number)) return notServed(about)
  const known = mssqlCodes[number]
  if (known !== undefined) return refused({ code: known, data: { code: about } })
  return refused(
    mssqlNaming.has(number)
      ? said(message, { code: about })
      : { code: 'SQL_REFUSED', data: { code: about } },
  )
}

/** PostgreSQL names the parameter that it could not read: `… parameter $2 = …`. */
function parameterOf(where: unknown): number {
  return Number(/\$(\d+)/.exec(String(where ?? ''))?.[1] ?? 0) - 1
}

/** MySQL quotes the value and then, at the end, the column. Only a column name of our own statement is shown. */
function columnNamed(message: unknown, columns: readonly string[]): string | undefined {
  const text = String(message)
  const end = text.slice(text.lastIndexOf(' for column ') + 1)
  return columns.find((name) => end.includes(`\`${name}\``) || end.includes(`'${name}'`))
}

/** Timeout codes of the drivers and the operating system. */
const timeoutCodes = new Set(['ETIMEDOUT', 'ETIMEOUT', 'PROTOCOL_SEQUENCE_TIMEOUT'])

function noConnection(code: string | undefined): Failed {
  const isLate = code !== undefined && timeoutCodes.has(code)
  const why: Reason = isLate
    ? { code: 'DATABASE_LATE', data: { code } }
    : { code: 'DATABASE_SILENT', data: { code } }
  return postponed(why, { outage: true })
}

function notServed(code: string): Failed {
  return postponed({ code: 'DATABASE_DOWN', data: { code } }, { outage: true })
}

function named<Name extends string>(what: Name, name: unknown): { [what in Name]?: string } {
  return typeof name === 'string'
    ? ({ [what]: name.slice(0, 128) } as { [what in Name]?: string })
    : {}
}

/** The server's message, if it can only name columns, tables and constraints. */
function said(
  message: unknown,
  data: { code: string; column?: string; constraint?: string },
): Reason {
  const words = String(message)
    .replace(/\p{Cc}+/gu, ' ')
    .slice(0, 300)
  return { code: 'SQL_SAID', data: { ...data, said: words } }
}
