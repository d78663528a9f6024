import type { Flow } from '../definition/schema.ts'
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

/** MySQL's and SQL Server's load when first needed: they would double the time in which the service comes up. */
export const sqlDrivers: Readonly<Record<SqlDialect, SqlDriver>> = {
  postgres: readPostgres,
  mysql: async function* (read) {
    yield* (await import('./sql-mysql.ts')).readMysql(read)
  },
  mssql: async function* (read) {
    yield* (await import('./sql-mssql.ts')).readMssql(read)
  },
}

/**
 * A database that is read by query, with a connection per read. `:cursor` is where to read from (`cursor.initial` for a
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
  const secrets = secretsOf(definition.url.reveal())
  const query = withoutTail(scanSql(definition.query, driver))
  const itemQuery =
    definition.itemQuery === undefined
      ? itemPieces(definition.query, driver, keyFields)
      : withoutTail(scanSql(definition.itemQuery, driver))

  const parameters = (since: string | null, values?: readonly string[]): SqlParameters => ({
    cursor: definition.cursor && (since ?? definition.cursor.initial),
    key: values && { fields: keyFields, values },
  })
  // A name that is not known is an error of the definition, so it is told at once.
  bindParameters(query, driver, parameters(null))
  const noValues = keyFields.map(() => '')
  if (itemQuery) bindParameters(itemQuery, driver, parameters(null, noValues))

  async function* run(statement: SqlStatement, callerSignal: AbortSignal) {
    const signal = AbortSignal.any([callerSignal, closing.signal])
    const { timeoutMs, fetchSize } = limits
    const url = definition.url.reveal()
    try {
      yield* atMost(read({ url, statement, timeoutMs, fetchSize, signal }), limits.maxRows)
    } catch (error) {
      const tell = (what: unknown) => `${driver} source: ${describe(what, secrets)}`
      if (error instanceof ImpossibleValueError) throw new ImpossibleValueError(tell(error.cause))
      throw sourceFailure(error, signal, tell)
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
        // No record has a key that its column cannot hold.
        if (error instanceof ImpossibleValueError) return []
        throw error
      }
    },
    async close() {
      closing.abort(new SourceClosedError())
    },
  }
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
