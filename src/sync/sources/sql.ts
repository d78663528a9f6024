import type { Secret } from '../../domain/secret.ts'
import { wallClockOf } from '../../domain/time-zone.ts'
import type { Flow } from '../definition/schema.ts'
import { connectionRoom } from '../net/connection-room.ts'
import { type Source, SourceClosedError, type SourceRow } from '../types.ts'
import type { SourceContext } from './context.ts'
import { atMost, matching } from './counted.ts'
import { describe, sourceFailure } from './failures.ts'
import { hasKey } from './row-key.ts'
import { ImpossibleValueError, type SqlDriver } from './sql-driver.ts'
import { readPostgres } from './sql-postgres.ts'
import {
  bindParameters,
  itemPieces,
  type SqlParameters,
  type SqlStatement,
  withoutTail,
} from './sql-statement.ts'
import { type SqlDialect, scanSql } from './sql-text.ts'

type SqlDefinition = Extract<Flow['source'], { type: 'sql' }>

/** All but PostgreSQL's load when first needed: they would double the time in which the service comes up. */
export const sqlDrivers: Readonly<Record<SqlDialect, SqlDriver>> = {
  postgres: readPostgres,
  mysql: async function* (read) {
    yield* (await import('./sql-mysql.ts')).readMysql(read)
  },
  mssql: async function* (read) {
    yield* (await import('./sql-mssql.ts')).readMssql(read)
  },
  firebird: async function* (read) {
    yield* (await import('./sql-firebird.ts')).readFirebird(read)
  },
}

/**
 * A database that is read by query, with a connection per read: some at a time of all reads of one server. `:cursor` is where to read from (`cursor.initial` for a
 * read of everything). One item is read by `itemQuery`, or by the query itself with a condition on the key fields. The
 * address is the operator's own and is not held against `allowPrivateNetwork`: databases live on private networks.
 */
export function openSqlSource(
  definition: SqlDefinition,
  { flow }: Pick<SourceContext, 'flow'>,
  read: SqlDriver = sqlDrivers[definition.driver],
): Source {
  const { driver, limits } = definition
  const keyFields = flow.item.key
  const closing = new AbortController()
  const { timeZone } = definition
  const clock = timeZone === undefined ? undefined : wallClockOf(timeZone)
  const given = Object.entries(definition.parameters ?? {})
  const own = Object.fromEntries(given.map(([name, value]) => [name, value.reveal()]))
  const secrets = [...secretsOf(definition.url.reveal()), ...referencedValues(given)]
  const query = withoutTail(scanSql(definition.query, driver))
  const itemQuery =
    definition.itemQuery === undefined
      ? itemPieces(definition.query, driver, keyFields)
      : withoutTail(scanSql(definition.itemQuery, driver))

  const parameters = (since: string | null, values?: readonly string[]): SqlParameters => ({
    cursor: definition.cursor && (since ?? definition.cursor.initial),
    key: values && { fields: keyFields, values },
    clock,
    own,
  })
  // A name that is not known is an error of the definition, so it is told at once.
  bindParameters(query, driver, parameters(null))
  const noValues = keyFields.map(() => '')
  const usesOwn = itemQuery?.some(({ kind, text }) => kind === 'parameter' && text in own) ?? false
  if (itemQuery) bindParameters(itemQuery, driver, parameters(null, noValues))

  async function* run(statement: SqlStatement, callerSignal: AbortSignal) {
    const signal = AbortSignal.any([callerSignal, closing.signal])
    const { timeoutMs, fetchSize } = limits
    const url = definition.url.reveal()
    let leave: (() => void) | undefined
    try {
      leave = await connectionRoom(driver, url, 'read').take(signal)
      yield* atMost(
        read({ url, statement, timeoutMs, fetchSize, timeZone, signal }),
        limits.maxRows,
      )
    } catch (error) {
      const tell = (what: unknown) => `${driver} source: ${describe(what, secrets)}`
      if (error instanceof ImpossibleValueError) throw new ImpossibleValueError(tell(error.cause))
      throw sourceFailure(error, signal, tell)
    } finally {
      leave?.()
    }
  }
  const scan: Source['scan'] = ({ since, signal }) =>
    run(bindParameters(query, driver, parameters(since)), signal)

  return {
    scan,
    async readItem({ key, signal }) {
      const isItem = (row: SourceRow) => hasKey(row, keyFields, key)
      if (!itemQuery) return await matching(scan({ since: null, signal }), isItem)
      const statement = bindParameters(itemQuery, driver, parameters(null, key))
      try {
        return await matching(run(statement, signal), isItem)
      } catch (error) {
        // No record has a key that its column cannot hold; with values of the definition beside it the key may be right.
        if (error instanceof ImpossibleValueError && !usesOwn) return []
        throw error
      }
    },
    async close() {
      closing.abort(new SourceClosedError())
    },
  }
}

/** What the flow file does not show of its parameters, and a database may repeat. */
function referencedValues(given: readonly [string, Secret][]): string[] {
  return given
    .filter(([, value]) => value.template !== value.reveal())
    .map(([, value]) => value.reveal())
}

/** The parts of an address or connection string that no message may show. */
function secretsOf(url: string): string[] {
  const password = /:\/\/[^:/?#]*:([^/?#]+)@/.exec(url)?.[1] ?? ''
  const named = [...url.matchAll(/(?:password|pwd)\s*=\s*([^;&]*)/gi)].map(
    (found) => found[1] ?? '',
  )
  return [url, password, decoded(password), ...named].filter(({ length }) => length > 3)
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
