import type { WallClock } from '../../domain/time-zone.ts'
import { SourceError } from '../types.ts'
import { joinRowKey } from './row-key.ts'
import { type SqlDialect, type SqlPiece, scanSql } from './sql-text.ts'

/** A query for a driver, with one placeholder and one value for each use of a parameter. */
export type SqlQuery = { text: string; values: string[] }

export type SqlParameters = {
  /** Value of `:cursor`; undefined when the flow has no cursor. */
  cursor: string | undefined
  /** The clock by which the source writes times without a zone. */
  clock?: WallClock | undefined
  /** Values of `:pk`, and of `:key_1`, `:key_2`… or `:key_<field>` for its parts; undefined for a full scan. */
  key: { fields: readonly string[]; values: readonly string[] } | undefined
  /** The definition's own parameters by name. */
  own?: Readonly<Record<string, string>> | undefined
}

/**
 * Replaces parameters by the driver's placeholders: `$1` (PostgreSQL), `?` (MySQL, Firebird) or `@tb1` (SQL Server). Each use
 * gets its own placeholder, so that the database may infer a different type for each. Throws SourceError for an unknown name.
 */
export function bindParameters(
  pieces: readonly SqlPiece[],
  dialect: SqlDialect,
  parameters: SqlParameters,
): SqlQuery {
  const values: string[] = []
  const text = pieces.map(({ kind, text }) => {
    if (kind !== 'parameter') return text
    values.push(parameterValue(text, dialect, parameters))
    return placeholder(dialect, values.length)
  })
  return { text: text.join(''), values }
}

/**
 * The query for the records of one item, derived from the query for all; undefined when that is impossible. `formsOf` gives the
 * parameters whose values a key field may have.
 */
export function itemPieces(
  query: string,
  dialect: SqlDialect,
  keyFields: readonly string[],
  formsOf = (index: number): readonly string[] => [`key_${index + 1}`],
): SqlPiece[] | undefined {
  const pieces = withoutTail(scanSql(query, dialect))
  // SQL Server does not allow a common table expression in a derived table.
  if (dialect === 'mssql' && /^\s*with\b/i.test(codeOf(pieces))) return undefined
  const inner = dialect === 'mssql' ? orderAllowed(pieces) : pieces
  const conditions = keyFields.flatMap((field, index): SqlPiece[] => {
    const column = `${index === 0 ? '' : ' and '}q.${quoteName(field, dialect)}`
    const forms = formsOf(index).flatMap((text, place): SqlPiece[] => [
      ...(place === 0 ? [] : [{ kind: 'code', text: ', ' } as const]),
      { kind: 'parameter', text },
    ])
    if (forms.length === 1) return [{ kind: 'code', text: `${column} = ` }, ...forms]
    return [{ kind: 'code', text: `${column} in (` }, ...forms, { kind: 'code', text: ')' }]
  })
  return [
    { kind: 'code', text: 'select * from (\n' },
    ...inner,
    // A new line, because the query may end with a comment.
    { kind: 'code', text: '\n) q where ' },
    ...conditions,
  ]
}

/** A key column of more blanks at the end is not expected; each number of them is one value of the query. */
const mostBlanks = 64

/**
 * The forms in which a database may have a key: an item's key is in NFC, without blanks at the end. SQL Server and Firebird
 * ignore these blanks themselves.
 */
export function keyForms(value: string, dialect: SqlDialect): string[] {
  const texts = [...new Set([value, value.normalize('NFD')])]
  if (dialect === 'mssql' || dialect === 'firebird') return texts
  return texts.flatMap((text) =>
    Array.from({ length: mostBlanks + 1 }, (_, count) => text + ' '.repeat(count)),
  )
}

/** Removes blanks, comments and semicolons at the end of a statement. */
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

function quoteName(name: string, dialect: SqlDialect): string {
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
  const value = name === 'pk' && key ? joinRowKey(key.values) : key?.values[index]
  if (value !== undefined) return value
  throw new SourceError({ code: 'PARAMETER_WITHOUT_VALUE', data: { name } })
}

function isKeyName(name: string, field: string, index: number): boolean {
  return name === `key_${field}` || name === `key_${index + 1}`
}

const zonedTime = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})$/

/**
 * Formats the cursor time for the database.
 *
 * - MySQL's and SQL Server's plain date types refuse a zone. Both sessions use UTC, so the zone is omitted.
 * - Only milliseconds: SQL Server's datetime accepts no more digits.
 * - With a clock, PostgreSQL's session uses the clock's zone, which suits columns with and without a zone.
 * - The other databases do not report the column's type. The earlier of both possible times misses no record.
 * - A time that the clock shows twice begins before both: a change in the second of these hours may have an earlier time.
 */
function timeFor(dialect: SqlDialect, cursor: string, clock: WallClock | undefined): string {
  const parts = zonedTime.exec(cursor)
  if (!parts || (dialect === 'postgres' && !clock)) return cursor
  const instant = new Date(cursor)
  const wall = clock?.beforeRepeated(clock.toWall(instant)) ?? instant
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

/** SQL Server allows ORDER BY in a derived table only with TOP or OFFSET. `offset 0 rows` removes no row. */
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

/** The code outside all parentheses. */
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
