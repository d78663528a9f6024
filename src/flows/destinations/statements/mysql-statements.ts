import { sql } from 'kysely'
import { isUuid } from '../../../domain/uuid.ts'
import {
  allOf,
  anyOf,
  compile,
  defaultsIn,
  givenIn,
  keyOf,
  namesOf,
  type SqlKey,
  type SqlPart,
  type SqlRow,
  type SqlStatement,
  type SqlTarget,
  type SqlValue,
  tableOf,
  valuesOf,
  withoutKey,
} from './sql-statement.ts'

/** The update of an upsert; openMysql explains why it does not use `on duplicate key update`. */
export function mysqlUpdate(target: SqlTarget, row: SqlRow): SqlStatement {
  const emptied = defaultsIn([row])
  const changed = withoutKey(target, givenIn([row]))
  const set = changed.length + emptied.length === 0 ? target.upsertKey : changed
  const assignments = set.map((name) => sql`${sql.id(name)} = ${row.get(name) ?? null}`)
  return compile(
    'mysql',
    sql`update ${tableOf(target)} set ${sql.join([...assignments, ...emptied])} where ${whereKeys(target, [keyOf(target, row)])}`,
  )
}

/** Inserts rows with the same columns. */
export function mysqlInsert(target: SqlTarget, rows: readonly SqlRow[]): SqlStatement {
  return compile('mysql', insert(target, rows))
}

function insert(target: SqlTarget, rows: readonly SqlRow[]): SqlPart {
  return sql`insert into ${tableOf(target)} (${namesOf(givenIn(rows))}) values ${valuesOf(rows)}`
}

/**
 * Like mysqlInsert, but changes rows whose key exists. For tables whose primary key is the upsert key, which MySQL checks
 * before any other index.
 *
 * When another row blocks the write, by a similar key or another unique index, the statement sets its key to null. A primary
 * key cannot be null, so the statement fails with 1048 and writes nothing.
 */
export function mysqlUpsert(target: SqlTarget, rows: readonly SqlRow[]): SqlStatement {
  const keys = target.upsertKey.map((name) => sql.id(name))
  const same = allOf(
    keys.map((key) => sql`cast(${key} as binary) = cast(values(${key}) as binary)`),
  )
  const set = [
    ...keys.map((key) => sql`${key} = if(${same}, ${key}, null)`),
    ...withoutKey(target, givenIn(rows)).map(
      (name) => sql`${sql.id(name)} = values(${sql.id(name)})`,
    ),
    ...defaultsIn(rows),
  ]
  return compile('mysql', sql`${insert(target, rows)} on duplicate key update ${sql.join(set)}`)
}

/** Deletes the rows with these keys. */
export function mysqlDelete(target: SqlTarget, keys: readonly SqlKey[]): SqlStatement {
  return compile('mysql', sql`delete from ${tableOf(target)} where ${whereKeys(target, keys)}`)
}

/** Counts the existing rows with these keys, as `there`. */
export function mysqlCount(target: SqlTarget, rows: readonly SqlRow[]): SqlStatement {
  const keys = rows.map((row) => keyOf(target, row))
  return compile(
    'mysql',
    sql`select count(*) as there from ${tableOf(target)} where ${whereKeys(target, keys)}`,
  )
}

/** A number has several spellings, as a UUID does. */
const numeric = /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/

function whereKeys(target: SqlTarget, keys: readonly SqlKey[]): SqlPart {
  return anyOf(
    keys.map((key) =>
      allOf(target.upsertKey.map((name, index) => sameKey(sql.id(name), key[index] ?? null))),
    ),
  )
}

/** Compares texts by their bytes, whatever the column's collation. */
function sameKey(column: SqlPart, value: SqlValue): SqlPart {
  if (value instanceof Date || value instanceof Uint8Array || typeof value === 'boolean') {
    return sql`${column} = ${value}`
  }
  // As text: MySQL converts a text column to numbers when it compares it with a number, and '5abc' to 5.
  const text = String(value)
  if (isUuid(text)) return sql`${column} = ${text}`
  const sameBytes = sql`cast(cast(${column} as char) as binary) = cast(${text} as binary)`
  // Columns of numbers have the charset binary and are compared by value. For text columns MySQL would take '5abc' for 5.
  return numeric.test(text)
    ? sql`${column} = ${text} and (charset(${column}) = 'binary' or ${sameBytes})`
    : sql`${column} = ${text} and ${sameBytes}`
}

/** Reads the keys, as text in the order of `upsertKey`, of rows that MySQL considers equal to these keys. */
export function mysqlSimilarKeys(target: SqlTarget, rows: readonly SqlRow[]): SqlStatement {
  const texts = target.upsertKey.map(
    (name, index) => sql`cast(${sql.id(name)} as char) as ${sql.id(`k${index}`)}`,
  )
  const [only, ...others] = target.upsertKey
  const where =
    only !== undefined && others.length === 0
      ? sql`${sql.id(only)} in (${sql.join(rows.flatMap((row) => keyOf(target, row).map(asText)))})`
      : anyOf(rows.map((row) => similarKey(target, row)))
  return compile('mysql', sql`select ${sql.join(texts)} from ${tableOf(target)} where ${where}`)
}

/** Finds a row with an equal key by the column's rules, which mysqlUpdate has not found by its bytes. */
export function mysqlSimilarKey(target: SqlTarget, row: SqlRow): SqlStatement {
  return compile(
    'mysql',
    sql`select 1 from ${tableOf(target)} where ${similarKey(target, row)} limit 1`,
  )
}

function similarKey(target: SqlTarget, row: SqlRow): SqlPart {
  const key = keyOf(target, row).map(asText)
  return allOf(target.upsertKey.map((name, index) => sql`${sql.id(name)} = ${key[index]}`))
}

/** MySQL converts a text column to numbers when it compares it with a number. */
function asText(value: SqlValue): SqlValue {
  return typeof value === 'number' ? String(value) : value
}

/**
 * The text of a key as its columns return it, for comparison with the result of `mysqlSimilarKeys`. Undefined when a value may
 * be returned in several spellings. Numbers are compared by value.
 */
export function mysqlKeyText(key: readonly unknown[]): string | undefined {
  const texts = key.map((value) => {
    if (typeof value !== 'string' && typeof value !== 'number') return undefined
    const text = String(value)
    return numeric.test(text) && text.includes('.') ? text.replace(/\.?0+$/, '') : text
  })
  return texts.includes(undefined) ? undefined : JSON.stringify(texts)
}

/** Reads the columns of the primary key by `name`, and whether inserts run triggers, as far as the user may see them. */
export function mysqlKeyQuery(target: SqlTarget): SqlStatement {
  return compile(
    'mysql',
    sql`select s.column_name as name,
        exists (select 1 from information_schema.triggers t where t.event_object_schema = s.table_schema
          and t.event_object_table = s.table_name and t.event_manipulation = 'INSERT') as triggers
      from information_schema.statistics s
      where ${isTable('s', target)} and s.index_name = 'PRIMARY' and s.sub_part is null`,
  )
}

/** Reads the columns whose type needs a conversion, by `name` and `kind`. */
export function mysqlColumnsQuery(target: SqlTarget): SqlStatement {
  return compile(
    'mysql',
    sql`select column_name as name, case when data_type = 'json' then 'json' when data_type like '%char' or data_type like '%text' then 'text'
        else 'bytes' end as kind
      from information_schema.columns c where ${isTable('c', target)}
        and data_type in ('binary', 'varbinary', 'tinyblob', 'blob', 'mediumblob', 'longblob', 'json',
          'char', 'varchar', 'tinytext', 'text', 'mediumtext', 'longtext')`,
  )
}

function isTable(alias: string, { table }: SqlTarget): SqlPart {
  const [first, second] = table.split('.')
  const schema = second === undefined ? sql`database()` : sql`${first}`
  return sql`${sql.id(alias, 'table_schema')} = ${schema} and ${sql.id(alias, 'table_name')} = ${second ?? first}`
}
