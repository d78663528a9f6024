import type { Secret } from '../../domain/flow-secret.ts'
import { wallClockOf } from '../../domain/time-zone.ts'
import type { Reason } from '../../texts/reason.ts'
import type { Flow } from '../definition/schema.ts'
import { connectionLimit } from '../net/connection-limit.ts'
import { refuseMetadataHost } from '../net/database-host.ts'
import { percentDecoded } from '../net/mask-secrets.ts'
import { type Source, SourceClosedError, type SourceRow } from '../types.ts'
import { limitRows, matching } from './record-batches.ts'
import { createKeyReader, hasKey } from './row-key.ts'
import type { SourceContext } from './source-context.ts'
import { describe, sourceFailure } from './source-failures.ts'
import { readPostgres } from './sql-postgres.ts'
import { ImpossibleValueError, type SqlReader } from './sql-reader.ts'
import {
  bindParameters,
  itemPieces,
  keyForms,
  type SqlParameters,
  type SqlQuery,
  withoutTail,
} from './sql-statement.ts'
import { type SqlDialect, scanSql } from './sql-text.ts'

type SqlDefinition = Extract<Flow['source'], { type: 'sql' }>

/** All but PostgreSQL's are loaded on first use: they would double the start time of the service. */
const sqlReaders: Readonly<Record<SqlDialect, SqlReader>> = {
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
 * Reads a database by query, with one connection per read and a limit of connections per server. `:cursor` is the position to
 * read from (`cursor.initial` for a full scan). One item is read by `itemQuery`, or by the query with a condition on the key
 * fields.
 *
 * The address may be on a private network, where databases are: only an administrator writes it. It may not be link-local or a
 * metadata service, nor lead to the service's own database.
 */
export function openSqlSource(
  definition: SqlDefinition,
  { flow, lookup, ownDatabase }: Pick<SourceContext, 'flow' | 'lookup' | 'ownDatabase'>,
  read: SqlReader = sqlReaders[definition.driver],
): Source {
  const { driver, limits } = definition
  const keyFields = flow.item.key
  const readKey = createKeyReader(flow.item)
  const closing = new AbortController()
  const { timeZone } = definition
  const clock = timeZone === undefined ? undefined : wallClockOf(timeZone)
  const given = Object.entries(definition.parameters ?? {})
  const own = Object.fromEntries(given.map(([name, value]) => [name, value.reveal()]))
  const url = definition.url.reveal()
  const secrets = [...secretsOf(url), ...referencedValues(given)]
  const query = withoutTail(scanSql(definition.query, driver))
  const itemQuery =
    definition.itemQuery === undefined
      ? itemPieces(definition.query, driver, keyFields)
      : withoutTail(scanSql(definition.itemQuery, driver))

  /** The database compares a key with its blanks at the start, which the item's key may lack. */
  const mayMiss = flow.item.hash.trim && definition.itemQuery === undefined

  const parameters = (since: string | null, values?: readonly string[]): SqlParameters => ({
    cursor: definition.cursor && (since ?? definition.cursor.initial),
    key: values && { fields: keyFields, values },
    clock,
    own,
  })
  // Bound once: each poll without a cursor reads by it.
  const fullScan = bindParameters(query, driver, parameters(null))
  const usesOwn = itemQuery?.some(({ kind, text }) => kind === 'parameter' && text in own) ?? false

  async function* run(statement: SqlQuery, callerSignal: AbortSignal) {
    const signal = AbortSignal.any([callerSignal, closing.signal])
    const { timeoutMs, fetchSize } = limits
    let release: (() => void) | undefined
    try {
      release = await connectionLimit(driver, url, 'read').acquire(signal)
      await refuseMetadataHost(driver, url, lookup)
      yield* limitRows(
        read({ url, statement, timeoutMs, fetchSize, timeZone, signal, ownDatabase }),
        limits.maxRows,
      )
    } catch (error) {
      const reasonOf = (what: unknown): Reason => ({
        code: 'AT_SOURCE',
        data: { source: driver, what: describe(what, secrets) },
      })
      if (error instanceof ImpossibleValueError) {
        throw new ImpossibleValueError(reasonOf(error.cause))
      }
      throw sourceFailure(error, signal, reasonOf)
    } finally {
      release?.()
    }
  }
  /** The query for records whose key has another form than that of the item. */
  const otherForms = (key: readonly string[]): SqlQuery | undefined => {
    const forms = key.map((value) => keyForms(value, driver))
    if (forms.every(({ length }) => length === 1)) return undefined
    const names = forms.map((texts, index) => texts.map((_, at) => `tillbridge_${index}_${at}`))
    const values = names.flatMap((list, index) =>
      list.map((name, at): [string, string] => [name, forms[index]?.[at] ?? '']),
    )
    const pieces = itemPieces(definition.query, driver, keyFields, (index) => names[index] ?? [])
    const known = parameters(null, key)
    const all = { ...known, own: { ...own, ...Object.fromEntries(values) } }
    return pieces && bindParameters(pieces, driver, all)
  }

  const scan: Source['scan'] = ({ since, signal }) =>
    run(since === null ? fullScan : bindParameters(query, driver, parameters(since)), signal)

  return {
    scan,
    async readItem({ key, signal }) {
      const isItem = (row: SourceRow) => hasKey(row, keyFields, key, readKey)
      const readAll = () => matching(scan({ since: null, signal }), isItem)
      if (!itemQuery) return await readAll()
      const statement = bindParameters(itemQuery, driver, parameters(null, key))
      try {
        const found = await matching(run(statement, signal), isItem)
        if (found.length > 0) return found
        if (mayMiss) return await readAll()
        const other = otherForms(key)
        return other ? await matching(run(other, signal), isItem) : []
      } catch (error) {
        // No record can have a key that does not fit its column. With own parameters, another value may be the wrong one.
        if (error instanceof ImpossibleValueError && !usesOwn) return []
        throw error
      }
    },
    async close() {
      closing.abort(new SourceClosedError())
    },
  }
}

/** Referenced parameter values, which the database may repeat in a message. */
function referencedValues(given: readonly [string, Secret][]): string[] {
  return given
    .filter(([, value]) => value.template !== value.reveal())
    .map(([, value]) => value.reveal())
}

/** The parts of an address or connection string that no message may contain. */
function secretsOf(url: string): string[] {
  const password = /:\/\/[^:/?#]*:([^/?#]+)@/.exec(url)?.[1] ?? ''
  const named = [...url.matchAll(/(?:password|pwd)\s*=\s*([^;&]*)/gi)].map(
    (found) => found[1] ?? '',
  )
  return [url, password, percentDecoded(password), ...named].filter(({ length }) => length > 3)
}
