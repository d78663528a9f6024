import {
  createQueryId,
  MssqlQueryCompiler,
  MysqlQueryCompiler,
  PostgresQueryCompiler,
  type RawBuilder,
  sql,
} from 'kysely'
import { ReasonError } from '../../../texts/reason.ts'
import type { DestinationDefinition } from '../../types.ts'

type SqlDefinition = Extract<DestinationDefinition, { type: 'sql' }>

export type SqlTarget = Pick<SqlDefinition, 'driver' | 'table' | 'upsertKey' | 'binary'>
export type SqlDriver = SqlTarget['driver']

/** A value for a driver. Lists and objects are JSON text. A list is the value of an array column; PostgreSQL only. */
export type SqlValue = string | number | boolean | null | Date | Uint8Array | readonly unknown[]

/** The values of the upsertKey columns, in their order. */
export type SqlKey = readonly SqlValue[]

export type SqlStatement = { text: string; values: SqlValue[] }

/** Columns with types that need converted values. `text`: numbers and times arrive as they are written. */
export type SqlColumns = ReadonlyMap<string, 'bytes' | 'list' | 'json' | 'text'>

/** Values by column. `undefined`: the item no longer has the field, so the column gets its default. */
export type SqlRow = ReadonlyMap<string, SqlValue | undefined>

/** A part of a statement. */
export type SqlPart = RawBuilder<unknown>

/** Kysely writes SQL Server's names in double quotes, which a server may be set to read as texts. */
class BracketCompiler extends MssqlQueryCompiler {
  protected override getLeftIdentifierWrapper(): string {
    return '['
  }
  protected override getRightIdentifierWrapper(): string {
    return ']'
  }
  protected override sanitizeIdentifier(name: string): string {
    return name.replaceAll(']', ']]')
  }
}

const compilers = {
  postgres: new PostgresQueryCompiler(),
  mysql: new MysqlQueryCompiler(),
  mssql: new BracketCompiler(),
}

/** The statement with the quotes and placeholders of the database. */
export function compile(driver: SqlDriver, statement: SqlPart): SqlStatement {
  const node = statement.toOperationNode()
  const { sql: text, parameters } = compilers[driver].compileQuery(node, createQueryId())
  return { text, values: [...parameters] as SqlValue[] }
}

/** `erp.stores` becomes `"erp"."stores"`. */
export function tableOf({ table }: Pick<SqlTarget, 'table'>): SqlPart {
  return sql.id(...table.split('.'))
}

/** The quoted name of the table, for functions that take it as a text. */
export function tableText(target: Pick<SqlTarget, 'driver' | 'table'>): string {
  return compile(target.driver, tableOf(target)).text
}

export function namesOf(columns: readonly string[]): SqlPart {
  return sql.join(columns.map((name) => sql.id(name)))
}

export function allOf(conditions: readonly SqlPart[]): SqlPart {
  return sql.join(conditions, sql` and `)
}

/** One condition for several keys. */
export function anyOf(conditions: readonly SqlPart[]): SqlPart {
  const [first, ...others] = conditions
  if (first && others.length === 0) return first
  return sql.join(
    conditions.map((condition) => sql`(${condition})`),
    sql` or `,
  )
}

/** The values of rows with the same columns: `(1, 'a'), (2, 'b')`. */
export function valuesOf(rows: readonly SqlRow[]): SqlPart {
  const lists = rows.map((row) => [...row.values()].filter((value) => value !== undefined))
  return sql.join(lists.map((list) => sql`(${sql.join(list)})`))
}

/** The columns that get a value; the same in all given rows. */
export function givenIn([first]: readonly SqlRow[]): string[] {
  return [...(first ?? [])].flatMap(([name, value]) => (value === undefined ? [] : [name]))
}

/** Sets the columns without a value to their default; the same in all given rows. */
export function defaultsIn([first]: readonly SqlRow[]): SqlPart[] {
  return [...(first ?? [])].flatMap(([name, value]) =>
    value === undefined ? [sql`${sql.id(name)} = default`] : [],
  )
}

export function keyOf({ upsertKey }: SqlTarget, row: SqlRow): SqlValue[] {
  return upsertKey.map((name) => row.get(name) ?? null)
}

export function withoutKey({ upsertKey }: SqlTarget, columns: readonly string[]): string[] {
  return columns.filter((name) => !upsertKey.includes(name))
}

/** Deletes rows of PostgreSQL or SQL Server. Each value is sent once, although `same` uses it several times. */
export function deleteByKeys(
  target: SqlTarget,
  keys: readonly SqlKey[],
  same: (column: SqlPart, value: SqlPart) => SqlPart,
): SqlStatement {
  const { driver, upsertKey } = target
  const conditions = keys.map((_, row) =>
    allOf(
      upsertKey.map((name, index) =>
        same(sql.id(name), placeholder(driver, row * upsertKey.length + index)),
      ),
    ),
  )
  const { text } = compile(driver, sql`delete from ${tableOf(target)} where ${anyOf(conditions)}`)
  return { text, values: keys.flat() }
}

/** A value that is used several times; Kysely would send it as often. */
export function placeholder(driver: SqlDriver, index: number): SqlPart {
  return sql.raw(`${driver === 'postgres' ? '$' : '@'}${index + 1}`)
}

/** Maximum length of names: in bytes for PostgreSQL, which cuts longer names silently, else in characters. */
const longestName = { postgres: 63, mysql: 64, mssql: 128 } as const

/** A name that is invalid in a statement. */
export class IdentifierError extends ReasonError {}

/** @throws IdentifierError when the database would cut or refuse one of the names. */
export function checkNames(driver: SqlDriver, names: Iterable<string>): void {
  for (const name of names) {
    const length = driver === 'postgres' ? Buffer.byteLength(name) : name.length
    if (length === 0 || length > longestName[driver] || /\p{Cc}|\p{Cs}/u.test(name)) {
      throw new IdentifierError({ code: 'UNUSABLE_NAME', data: { name: JSON.stringify(name) } })
    }
  }
}
