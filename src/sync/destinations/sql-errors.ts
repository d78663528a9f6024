import pg from 'pg'
import { ConnectionFileError } from '../../db/connection-files.ts'
import { codeOf } from '../../db/database-failures.ts'
import type { DeliveryResult } from '../types.ts'
import { postponed, refused } from './result.ts'
import { ConnectError, LookAlikeError } from './sql-client.ts'
import type { SqlDriver } from './sql-statements.ts'

type Failed = Extract<DeliveryResult, { ok: false }>

/** A unique value that another row has, and rows that are referred to: 547 of SQL Server is a check, too. */
const conflicts = {
  postgres: new Set<unknown>(['23503', '23505']),
  mysql: new Set<unknown>([1062, 1451, 1452]),
  mssql: new Set<unknown>([547, 2601, 2627]),
} as const

/**
 * Whether other rows are in the way of this one. They may change in a moment: items go in no order, so a code that moves from one to another is
 * there twice meanwhile, and what a row refers to may come after it.
 */
export function isConflict(driver: SqlDriver, error: unknown): boolean {
  if (error instanceof LookAlikeError) return true
  if (driver === 'postgres') return conflicts.postgres.has(codeOf(error))
  const { errno, number } = (error ?? {}) as Record<string, unknown>
  return conflicts[driver].has(driver === 'mysql' ? errno : number)
}

/**
 * What a failed statement means, by SQLSTATE and error number only. Whatever concerns the connection or the server counts
 * as an outage, a wrong password too: it says nothing about the item. Reasons hold no values of the row: messages of a
 * server are shown only where they can name columns, tables and constraints alone.
 */
export function judgeSqlError(
  driver: SqlDriver,
  error: unknown,
  columns: readonly string[] = [],
): Failed {
  const judged = judge(driver, error, columns)
  return isConflict(driver, error) ? postponed(judged.reason, { outage: false }) : judged
}

function judge(driver: SqlDriver, error: unknown, columns: readonly string[]): Failed {
  if (error instanceof ConnectError) {
    const { cause } = error
    if (cause instanceof ConnectionFileError) return postponed(cause.message, { outage: true })
    return noConnection(codeOf(cause))
  }
  if (error instanceof LookAlikeError) {
    return refused(
      'a row is there whose key differs only in what its column does not tell apart, such as case or accents; give the columns of upsertKey a binary collation',
    )
  }
  if (driver === 'postgres') return judgePostgres(error, columns)
  return driver === 'mysql' ? judgeMysql(error, columns) : judgeMssql(error)
}

const busy = 'the database was busy'
const lockTimeout = 'a lock was waited for too long'
const statementTimeout = 'the statement took too long'

// SQLSTATE, appendix A of the PostgreSQL manual.
const postgresOutage = new Set(['08', '28', '3D', '53', '57', '58'])
const postgresBusy = new Set(['40001', '40P01', '55P03', '57014'])
const postgresTimeouts: Readonly<Record<string, string>> = {
  '55P03': lockTimeout,
  '57014': 'the statement took too long, or somebody ended it',
}
const postgresTexts: Readonly<Record<string, string>> = {
  '22001': 'a text is too long for its column',
  '22003': 'a number is too large for its column',
  '22007': 'a date cannot be read',
  '22008': 'a date is out of range',
  '22P02': 'a value does not fit the type of its column',
  '22P05': 'a text holds a character that the database cannot keep',
  '22021': 'a text holds a character that the database cannot keep',
  '23502': 'a required column has no value',
  '23503': 'a row that this one refers to is missing, or others still refer to it',
  '23505': 'another row has the same unique value',
  '23514': 'a check of the table refused the row',
  '42501': 'the user may not write to the table',
  '42P10': 'the table has no unique index on the columns of upsertKey',
}

function judgePostgres(error: unknown, columns: readonly string[]): Failed {
  const state = codeOf(error)
  // What the driver says itself has a system code (EPIPE) or none.
  if (!(error instanceof pg.DatabaseError) || state === undefined) return noConnection(state)
  if (postgresBusy.has(state)) {
    const text = postgresTimeouts[state] ?? busy
    return postponed(`${text} (SQLSTATE ${state})`, { outage: false })
  }
  if (postgresOutage.has(state.slice(0, 2)) || state === '25006') {
    return postponed(`the database does not serve us (SQLSTATE ${state})`, { outage: true })
  }
  const { constraint, message, where } = error
  const column = error.column ?? columns[parameterOf(where)]
  const names = [named('column', column), named('constraint', constraint)].filter(Boolean)
  // Class 42 is about the statement, which holds names and placeholders only.
  const text = postgresTexts[state] ?? (state.startsWith('42') ? shortened(message) : 'refused')
  return refused([`${text} (SQLSTATE ${state})`, ...names].join(', '))
}

// Error numbers: MySQL 8.4 "Server Error Message Reference", MariaDB "Error Codes".
const mysqlBusy = new Set([1205, 1213, 1317, 1969, 3024, 4031])
const mysqlTimeouts: Readonly<Record<number, string>> = {
  1205: lockTimeout,
  1969: statementTimeout,
  3024: statementTimeout,
}
const mysqlOutage = new Set([
  1021, 1037, 1038, 1041, 1053, 1114, 1152, 1158, 1159, 1160, 1161, 1226, 1290, 1792, 1836, 1927,
])
const mysqlTexts: Readonly<Record<number, string>> = {
  1062: 'another row has the same unique value',
  1142: 'the user may not write to the table',
  1265: 'a value does not fit the type of its column',
  // Of a comparison, and only keys are compared.
  1267: 'the key has a character that its column cannot hold',
  1292: 'a value does not fit the type of its column',
  1366: 'a value does not fit the type of its column',
}
/** Their messages name columns, tables and constraints only. */
const mysqlNaming = new Set([1048, 1054, 1146, 1264, 1364, 1406, 1451, 1452, 3819, 4025])

function judgeMysql(error: unknown, columns: readonly string[]): Failed {
  const { errno, sqlState, message } = (error ?? {}) as Record<string, unknown>
  // What the server says has a SQLSTATE; what the driver says does not.
  if (typeof errno !== 'number' || typeof sqlState !== 'string') return noConnection(codeOf(error))
  if (mysqlBusy.has(errno)) {
    const text = mysqlTimeouts[errno] ?? busy
    return postponed(`${text} (error ${errno})`, { outage: false })
  }
  if (mysqlOutage.has(errno) || sqlState.startsWith('08')) {
    return postponed(`the database does not serve us (error ${errno})`, { outage: true })
  }
  const text = mysqlTexts[errno] ?? (mysqlNaming.has(errno) ? shortened(message) : 'refused')
  const column = mysqlTexts[errno] === undefined ? undefined : columnNamed(message, columns)
  return refused([`${text} (error ${errno})`, named('column', column)].filter(Boolean).join(', '))
}

// Error numbers: "Database Engine events and errors", Microsoft Learn.
const mssqlBusy = new Set([1205, 1222, 3960, 41302, 41305, 41325])
const mssqlOutage = new Set([
  64, 233, 596, 601, 701, 802, 845, 921, 922, 923, 924, 927, 945, 976, 978, 983, 1105, 3906, 3908,
  6005, 8628, 8645, 8651, 9002, 10053, 10054, 10060, 10922, 10928, 10929, 10936, 40143, 40197,
  40501, 40540, 40544, 40549, 40550, 40551, 40552, 40553, 40613, 49918, 49919, 49920,
])
const mssqlDuplicate =
  'another row has the same unique value, or one that its column does not tell apart (case, accents, blanks at the end)'
const mssqlTexts: Readonly<Record<number, string>> = {
  229: 'the user may not write to the table',
  241: 'a date cannot be read',
  245: 'a value does not fit the type of its column',
  2601: mssqlDuplicate,
  2627: mssqlDuplicate,
  2628: 'a text is too long for its column',
  8152: 'a text is too long for its column',
}
/** Their messages name columns, tables, types and constraints only. */
const mssqlNaming = new Set([206, 207, 208, 257, 515, 544, 547, 8114, 8115])

function judgeMssql(error: unknown): Failed {
  const { number, message, code } = (error ?? {}) as Record<string, unknown>
  // Only what the server says has EREQUEST and a number; ETIMEOUT of a request is the driver's.
  if (code !== 'EREQUEST' || typeof number !== 'number') return noConnection(codeOf(error))
  if (mssqlBusy.has(number)) {
    const text = number === 1222 ? lockTimeout : busy
    return postponed(`${text} (error ${number})`, { outage: false })
  }
  if (mssqlOutage.has(number)) {
    return postponed(`the database does not serve us (error ${number})`, { outage: true })
  }
  const text = mssqlTexts[number] ?? (mssqlNaming.has(number) ? shortened(message) : 'refused')
  return refused(`${text} (error ${number})`)
}

/** PostgreSQL tells of a value that it could not read which parameter it was: `… parameter $2 = …`. */
function parameterOf(where: unknown): number {
  return Number(/\$(\d+)/.exec(String(where ?? ''))?.[1] ?? 0) - 1
}

/** MySQL quotes the value and then, at the end, the column. Only a name that we wrote ourselves is shown. */
function columnNamed(message: unknown, columns: readonly string[]): string | undefined {
  const text = String(message)
  const end = text.slice(text.lastIndexOf(' for column ') + 1)
  return columns.find((name) => end.includes(`\`${name}\``) || end.includes(`'${name}'`))
}

/** Of the drivers and of the operating system. */
const timeoutCodes = new Set(['ETIMEDOUT', 'ETIMEOUT', 'PROTOCOL_SEQUENCE_TIMEOUT'])

function noConnection(code: string | undefined): Failed {
  const inTime = code !== undefined && timeoutCodes.has(code) ? ' in time' : ''
  const suffix = code === undefined ? '' : ` (${code})`
  return postponed(`no answer from the database${inTime}${suffix}`, { outage: true })
}

function named(what: string, name: unknown): string {
  return typeof name === 'string' ? `${what} ${name.slice(0, 128)}` : ''
}

function shortened(message: unknown): string {
  return String(message)
    .replace(/\p{Cc}+/gu, ' ')
    .slice(0, 300)
}
