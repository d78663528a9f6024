import type { Column, Connection, Driver, Lob } from 'oracledb'
import { weightOf } from '../mapping/weight.ts'
import type { SourceRow } from '../types.ts'
import { inBatches } from './counted.ts'
import { watchSilence } from './silence.ts'
import { ImpossibleValueError, type SqlDriver, type SqlRead } from './sql-driver.ts'
import { checkOracleColumns, comesAsText, oracleSession, oracleValue } from './sql-oracle-values.ts'
import { maxRowsAhead, rowMaker, SilentDatabaseError } from './sql-rows.ts'
import { createWallClock } from './wall-clock.ts'

const goodbyeMs = 1_000
const maxPortionRows = 1_000
/** Of the records of one answer, in characters counted roughly: the driver holds it as a whole. */
const portionWeight = 512 * 1_024
/** "invalid number": a word where a number is expected. */
const invalidNumber = 1_722

/** Reads with the given driver; the product's own is `readOracle`. */
export function oracleReader(load: () => Promise<Driver>): SqlDriver {
  return (read) => readWith(load, read)
}

/** The driver in its thin mode, which needs no client of Oracle. */
export const readOracle = oracleReader(async () => (await import('oracledb')).default)

/**
 * Reads in portions in a read-only transaction, which sees the database as it was when it began (Oracle). Values go as CHAR: with a
 * VARCHAR beside it a column of type CHAR would be compared with its blanks. A query that gives nothing for `timeoutMs` is
 * broken off at the server.
 */
async function* readWith(load: () => Promise<Driver>, read: SqlRead): AsyncGenerator<SourceRow[]> {
  const { statement, timeoutMs, fetchSize, signal } = read
  signal.throwIfAborted()
  const clock = read.timeZone === undefined ? undefined : createWallClock(read.timeZone)
  const oracle = await load()
  const given = Promise.withResolvers<never>()
  given.promise.catch(() => undefined)
  let connection: Connection | undefined
  const stop = (reason: unknown) => {
    given.reject(reason)
    connection?.break().catch(() => undefined)
  }
  const onAbort = () => stop(signal.reason)
  const onSilence = () => stop(new SilentDatabaseError(timeoutMs))
  signal.addEventListener('abort', onAbort, { once: true })
  const preparing = setTimeout(onSilence, timeoutMs)
  const untilStopped = <T>(answer: Promise<T>): Promise<T> => {
    answer.catch(() => undefined)
    return Promise.race([answer, given.promise])
  }
  const connecting = oracle.getConnection(oracleOptions(read))
  try {
    connection = await untilStopped(connecting)
    const open = connection
    // Later than our own: it closes the socket of a server that does not even take the break.
    open.callTimeout = timeoutMs + goodbyeMs
    for (const text of oracleSession) await untilStopped(open.execute(text))
    const values = Object.fromEntries(
      statement.values.map((val, index) => [`tb${index + 1}`, { val, type: oracle.DB_TYPE_CHAR }]),
    )
    const asked = open.execute(statement.text, values, {
      resultSet: true,
      fetchArraySize: maxRowsAhead,
      prefetchRows: 0,
      outFormat: oracle.OUT_FORMAT_ARRAY,
      fetchTypeHandler: (column) =>
        comesAsText(column) ? { type: oracle.DB_TYPE_VARCHAR } : undefined,
    })
    const { metaData: columns = [], resultSet } = await untilStopped(asked).catch(asImpossibleValue)
    clearTimeout(preparing)
    if (!resultSet) throw new Error('the query gives no records')
    checkOracleColumns(columns)
    const toRow = rowMaker(columns.map(({ name }) => name))
    const wholeValue = async (value: unknown, column: Column | undefined): Promise<unknown> => {
      if (!column) return null
      const whole = isLob(value, column) ? await untilStopped(value.getData()) : value
      return oracleValue(whole, column, clock)
    }

    const portions = async function* () {
      for (let portion = maxRowsAhead; ; ) {
        const rows = await untilStopped(resultSet.getRows(portion)).catch(asImpossibleValue)
        let weight = 0
        for (const row of rows) {
          const made: unknown[] = []
          for (const [index, value] of row.entries()) {
            made.push(await wholeValue(value, columns[index]))
          }
          weight += weightOf(made, Number.POSITIVE_INFINITY)
          yield toRow(made)
        }
        if (rows.length < portion) return
        const each = Math.max(1, weight / rows.length)
        portion = Math.max(1, Math.min(fetchSize, maxPortionRows, Math.floor(portionWeight / each)))
      }
    }
    yield* inBatches(watchSilence(portions(), timeoutMs, onSilence), fetchSize, (row) => row)
  } finally {
    clearTimeout(preparing)
    signal.removeEventListener('abort', onAbort)
    await leave(connecting, connection)
  }
}

/** A clean goodbye, which also rolls back. One that comes late, or a connection that does, is not waited for. */
async function leave(connecting: Promise<Connection>, connection: Connection | undefined) {
  if (!connection) {
    connecting.then((late) => late.close()).catch(() => undefined)
    return
  }
  const late = Promise.withResolvers<void>()
  const timer = setTimeout(late.resolve, goodbyeMs)
  await Promise.race([connection.close().catch(() => undefined), late.promise])
  clearTimeout(timer)
}

function isLob(value: unknown, { dbType }: Column): value is Lob {
  return value !== null && value !== undefined && /^DB_TYPE_N?[BC]LOB$/.test(dbType.name)
}

/** What the driver wants of `oracle://user:password@host:1521/SERVICE`. */
function oracleOptions({ url: address, timeoutMs }: SqlRead) {
  const url = new URL(address)
  return {
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    connectString: `//${url.hostname}:${url.port || 1521}${url.pathname}`,
    connectTimeout: Math.ceil(timeoutMs / 1_000),
  }
}

function asImpossibleValue(error: unknown): never {
  const { errorNum } = error as { errorNum?: unknown }
  if (errorNum !== invalidNumber) throw error
  throw new ImpossibleValueError('a parameter has a value that its column cannot hold', {
    cause: error,
  })
}
