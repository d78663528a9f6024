import type { WallClock } from '../../domain/time-zone.ts'
import { SourceError } from '../types.ts'
import { joinKey } from './row-key.ts'
import { type SqlDialect, type SqlPiece, scanSql } from './sql-text.ts'

/** A query in the form of its driver: one placeholder and one value for each place a parameter stands at. */
export type SqlStatement = { text: string; values: string[] }

export type SqlParameters = {
  /** `:cursor`; undefined when the flow has none. */
  cursor: string | undefined
  /** By which the source writes times without a zone. */
  clock?: WallClock | undefined
  /** `:pk`, and `:key_1`, `:key_2`… or `:key_<field>` for its parts; undefined for a read of everything. */
  key: { fields: readonly string[]; values: readonly string[] } | undefined
  /** Those of the definition, by their names. */
  own?: Readonly<Record<string, string>> | undefined
}

/**
 * Puts the driver's placeholders where the parameters stand: `$1` (PostgreSQL), `?` (MySQL, Firebird) or `@tb1` (SQL Server). Each
 * place has a placeholder of its own, so that the database may give them different types. Throws SourceError for an
 * unknown name.
 */
export function bindParameters(
  pieces: readonly SqlPiece[],
  dialect: SqlDialect,
  parameters: SqlParameters,
): SqlStatement {
  const values: string[] = []
  const text = pieces.map(({ kind, text }) => {
    if (kind !== 'parameter') return text
    values.push(parameterValue(text, dialect, parameters))
    return placeholder(dialect, values.length)
  })
  return { text: text.join(''), values }
}

/** The query for the records of one item, made of the query for all. Undefined when it cannot be made. */
export function itemPieces(
  query: string,
  dialect: SqlDialect,
  keyFields: readonly string[],
): SqlPiece[] | undefined {
  const pieces = withoutTail(scanSql(query, dialect))
  // SQL Server takes no common table expression in a derived table.
  if (dialect === 'mssql' && /^\s*with\b/i.test(codeOf(pieces))) return undefined
  const inner = dialect === 'mssql' ? orderAllowed(pieces) : pieces
  const conditions = keyFields.flatMap((field, index): SqlPiece[] => [
    { kind: 'code', text: `${index === 0 ? '' : ' and '}q.${quoteName(field, dialect)} = ` },
    { kind: 'parameter', text: `key_${index + 1}` },
  ])
  return [
    { kind: 'code', text: 'select * from (\n' },
    ...inner,
    // A new line, since the query may end in a comment.
    { kind: 'code', text: '\n) q where ' },
    ...conditions,
  ]
}

/** The pieces without what ends a statement: blanks, comments and semicolons. */
export function withoutTail(pieces: readonly SqlPiece[]): SqlPiece[] {
  const kept = [...pieces]
  for (;;) {
    const last = kept.at(-1)
    if (!last) return kept
    const text = last.kind === 'code' ? last.text.replace(/[\s;]+$/, '') : last.text
    if (last.kind !== 'comment' && text !== '') {
      kept[kept.length - 1] = { ...last, text }
      return kept
    }
    kept.pop()
  }
}

export function quoteName(name: string, dialect: SqlDialect): string {
  switch (dialect) {
    case 'postgres':
    case 'firebird':
      return `"${name.replaceAll('"', '""')}"`
    case 'mysql':
      return `\`${name.replaceAll('`', '``')}\``
    case 'mssql':
      return `[${name.replaceAll(']', ']]')}]`
    default:
      return dialect satisfies never
  }
}

function parameterValue(
  name: string,
  dialect: SqlDialect,
  { cursor, clock, key, own }: SqlParameters,
): string {
  if (own && Object.hasOwn(own, name)) return own[name] ?? ''
  if (name === 'cursor' && cursor !== undefined) return timeFor(dialect, cursor, clock)
  const index = key ? key.fields.findIndex((f, i) => isKeyName(name, f, i)) : -1
  const value = name === 'pk' && key ? joinKey(key.values) : key?.values[index]
  if (value !== undefined) return value
  throw new SourceError(
    `the query has the parameter :${name}, for which there is no value here; there are :cursor (when the source has a cursor), those of source.parameters and, in itemQuery, :pk, :key_1 and :key_<field>`,
  )
}

function isKeyName(name: string, field: string, index: number): boolean {
  return name === `key_${field}` || name === `key_${index + 1}`
}

const zonedTime = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})$/

/**
 * MySQL's and SQL Server's plain date types refuse a text with a zone; both sessions read and write in UTC, so it is
 * left out. Milliseconds only: SQL Server's datetime takes no more. By a clock PostgreSQL's session is in its zone, so that
 * what the clock shows is right for columns with and without one. The others do not tell which the column is: the earlier of
 * both times misses nothing.
 */
function timeFor(dialect: SqlDialect, cursor: string, clock: WallClock | undefined): string {
  const parts = zonedTime.exec(cursor)
  if (!parts || (dialect === 'postgres' && !clock)) return cursor
  const instant = new Date(cursor)
  const wall = clock?.toWall(instant) ?? instant
  if (dialect === 'postgres') {
    return wall.toISOString().slice(0, -'.000Z'.length) + (parts[2] ?? '')
  }
  const iso = new Date(Math.min(wall.getTime(), instant.getTime())).toISOString().slice(0, -1)
  return dialect === 'mssql' ? iso : iso.replace('T', ' ')
}

function placeholder(dialect: SqlDialect, position: number): string {
  if (dialect === 'mysql' || dialect === 'firebird') return '?'
  return dialect === 'postgres' ? `$${position}` : `@tb${position}`
}

function codeOf(pieces: readonly SqlPiece[]): string {
  return pieces.map(({ kind, text }) => (kind === 'code' ? text : ' x ')).join('')
}

/** SQL Server takes ORDER BY in a derived table only with TOP or OFFSET; `offset 0 rows` takes nothing away. */
function orderAllowed(pieces: SqlPiece[]): SqlPiece[] {
  const outer = outermost(codeOf(pieces.filter(({ kind }) => kind !== 'comment')))
  if (
    !/\border\s+by\b/i.test(outer) ||
    /\boffset\b|^\s*select\s+(distinct\s+)?top\b/i.test(outer)
  ) {
    return pieces
  }
  return [...pieces, { kind: 'code', text: '\noffset 0 rows' }]
}

/** The code outside of all parentheses. */
function outermost(code: string): string {
  let depth = 0
  let kept = ''
  for (const char of code) {
    if (char === '(') depth += 1
    else if (char === ')') depth -= 1
    else if (depth === 0) kept += char
  }
  return kept
}
