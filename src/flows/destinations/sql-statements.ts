import { isUuid } from '../../domain/uuid.ts'
import { ReasonError } from '../../texts/reason.ts'
import type { DestinationDefinition } from '../types.ts'

export type SqlDriver = SqlTarget['driver']

/** A value for a driver. Lists and objects are JSON text. */
export type SqlValue = string | number | boolean | null | Date | Uint8Array | SqlList

/** Value of an array column; PostgreSQL only. */
export type SqlList = readonly unknown[]

export type SqlStatement = { text: string; values: SqlValue[] }

export type SqlTarget = Pick<SqlDefinition, 'driver' | 'table' | 'upsertKey' | 'binary'>
type SqlDefinition = Extract<DestinationDefinition, { type: 'sql' }>

/** Columns with types that need converted values. `text`: numbers and times arrive as they are written. */
export type SqlColumns = ReadonlyMap<string, 'bytes' | 'list' | 'json' | 'text'>

/** Values by column. `undefined`: the item no longer has the field, so the column gets its default. */
export type SqlRow = ReadonlyMap<string, SqlValue | undefined>

/** Maximum length of names: in bytes for PostgreSQL, which cuts longer names silently, else in characters. */
const longestName = { postgres: 63, mysql: 64, mssql: 128 } as const

/** A name that is invalid in a statement. */
export class IdentifierError extends ReasonError {}

/** Cache: thousands of rows use the same few columns. */
const quoted: Record<SqlDriver, Map<string, string>> = {
  postgres: new Map(),
  mysql: new Map(),
  mssql: new Map(),
}
const mostQuoted = 1_000

/**
 * Quotes a name, so that it can only be a name. On PostgreSQL its case then matters.
 *
 * @throws IdentifierError
 */
export function quoteIdentifier(driver: SqlDriver, name: string): string {
  const known = quoted[driver].get(name)
  if (known !== undefined) return known
  const made = quotedName(driver, name)
  if (quoted[driver].size >= mostQuoted) quoted[driver].clear()
  quoted[driver].set(name, made)
  return made
}

function quotedName(driver: SqlDriver, name: string): string {
  const length = driver === 'postgres' ? Buffer.byteLength(name) : name.length
  if (length === 0 || length > longestName[driver] || /\p{Cc}|\p{Cs}/u.test(name)) {
    throw new IdentifierError({ code: 'UNUSABLE_NAME', data: { name: JSON.stringify(name) } })
  }
  if (driver === 'postgres') return `"${name.replaceAll('"', '""')}"`
  if (driver === 'mysql') return `\`${name.replaceAll('`', '``')}\``
  return `[${name.replaceAll(']', ']]')}]`
}

/** `erp.stores` becomes `"erp"."stores"`. */
export function quoteTable({ driver, table }: Pick<SqlTarget, 'driver' | 'table'>): string {
  return table
    .split('.')
    .map((part) => quoteIdentifier(driver, part))
    .join('.')
}

/**
 * One statement that inserts rows with the same columns, or changes the rows with the same key. It needs a unique index on the
 * key. It changes no row whose key is only equal by the column's rules, such as citext or a case-insensitive collation.
 */
export function postgresUpsert(target: SqlTarget, rows: readonly SqlRow[]): SqlStatement {
  const columns = givenIn(rows)
  const places = rows.map(
    (_, place) =>
      `(${columns.map((_, index) => `$${place * columns.length + index + 1}`).join(', ')})`,
  )
  return {
    text: insertOrChange(target, rows, `values ${places.join(', ')}`),
    values: rows.flatMap(valuesOf),
  }
}

/** The types of a table's columns when they were read. `all` is a text for comparison. */
export type PostgresTypes = { all: string; of: ReadonlyMap<string, string> }

/**
 * Like postgresUpsert, with one list per column instead of one parameter per value, which halves the work of both sides. Lists
 * need a type, so no row is written after a type changed. Undefined when a column is missing or its type cannot be used in a
 * list.
 */
export function postgresUpsertByLists(
  target: SqlTarget,
  rows: readonly SqlRow[],
  types: PostgresTypes,
): SqlStatement | undefined {
  const columns = givenIn(rows)
  const lists: string[] = []
  for (const [index, name] of columns.entries()) {
    const type = types.of.get(name)
    if (type === undefined) return undefined
    lists.push(`$${index + 3}::${type}[]`)
  }
  const given = `select * from unnest(${lists.join(', ')}) where (${allTypes('$1')}) = $2::text`
  return {
    text: insertOrChange(target, rows, given),
    values: [
      quoteTable(target),
      types.all,
      ...columns.map((name) => rows.map((row) => row.get(name) ?? null)),
    ],
  }
}

/** Reads the columns' `name` and `type`; `all` is in each row. */
export function postgresTypesQuery(target: SqlTarget): SqlStatement {
  return {
    // A type needs usage permission, and some types separate list elements by another character than a comma.
    text: `select a.attname as name, quote_ident(n.nspname) || '.' || quote_ident(t.typname) as type,
        (${allTypes('$1')}) as all
      from pg_attribute a join pg_type t on t.oid = a.atttypid join pg_namespace n on n.oid = t.typnamespace
      where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped
        and t.typarray <> 0 and t.typcategory <> 'A' and t.typdelim = ','
        and has_schema_privilege(n.oid, 'usage') and has_type_privilege(t.oid, 'usage')`,
    values: [quoteTable(target)],
  }
}

/** A text that changes when a column's type changes. */
function allTypes(table: string): string {
  return `select string_agg(attname || ' ' || atttypid, ',' order by attnum) from pg_attribute
      where attrelid = to_regclass(${table}) and attnum > 0 and not attisdropped`
}

/** The columns that get a value; the same in all given rows. */
export function givenIn([first]: readonly SqlRow[]): string[] {
  return [...(first ?? [])].flatMap(([name, value]) => (value === undefined ? [] : [name]))
}

/** The columns that get their default; the same in all given rows. */
function defaultsIn([first]: readonly SqlRow[]): string[] {
  return [...(first ?? [])].flatMap(([name, value]) => (value === undefined ? [name] : []))
}

function valuesOf(row: SqlRow): SqlValue[] {
  return [...row.values()].filter((value) => value !== undefined)
}

/** `given` is the SQL that returns the rows, with the columns that get a value. */
function insertOrChange(target: SqlTarget, rows: readonly SqlRow[], given: string): string {
  const quote = (name: string) => quoteIdentifier('postgres', name)
  const columns = givenIn(rows)
  const changed = withoutKey(target, columns).map(
    (name) => `${quote(name)} = excluded.${quote(name)}`,
  )
  const emptied = defaultsIn(rows).map((name) => `${quote(name)} = default`)
  // A row with only a key sets the key to itself. Otherwise an existing row would look like a blocked one.
  const itself = target.upsertKey.map((name) => `${quote(name)} = excluded.${quote(name)}`)
  const set = changed.length + emptied.length === 0 ? itself : [...changed, ...emptied]
  const same = target.upsertKey.map((name) =>
    samePostgresKey(`t.${quote(name)}`, `excluded.${quote(name)}`),
  )
  return [
    `insert into ${quoteTable(target)} as t (${columns.map(quote).join(', ')})`,
    given,
    `on conflict (${target.upsertKey.map(quote).join(', ')})`,
    `do update set ${set.join(', ')}`,
    `where ${same.join(' and ')}`,
  ].join(' ')
}

/**
 * Finds a row with a similar key that blocks postgresUpsert. Without one, a trigger may have skipped the row, which is
 * allowed.
 */
export function postgresSimilarKey(target: SqlTarget, row: SqlRow): SqlStatement {
  const where = target.upsertKey.map((name, index) => {
    const column = quoteIdentifier('postgres', name)
    return { equal: `${column} = $${index + 1}`, same: samePostgresKey(column, `$${index + 1}`) }
  })
  const equal = where.map((one) => one.equal).join(' and ')
  const same = where.map((one) => one.same).join(' and ')
  return {
    text: `select 1 from ${quoteTable(target)} where ${equal} and not (${same}) limit 1`,
    values: keyOf(target, row),
  }
}

/** Numbers are compared by value, because a number has several spellings. */
function samePostgresKey(column: string, value: string): string {
  return `(pg_typeof(${column}) = any('{numeric,real,double precision}'::regtype[]) or ${column}::text collate "C" = ${value}::text)`
}

/** One statement for rows with the same columns. `holdlock` makes a second writer of the same key wait until the insert. */
export function mssqlUpsert(target: SqlTarget, rows: readonly SqlRow[]): SqlStatement {
  const quote = (name: string) => quoteIdentifier('mssql', name)
  const columns = givenIn(rows)
  const given = rows.map(
    (_, place) =>
      `(${columns.map((_, index) => `@p${place * columns.length + index}`).join(', ')})`,
  )
  const changed = [
    ...withoutKey(target, columns).map((name) => `${quote(name)} = s.${quote(name)}`),
    ...defaultsIn(rows).map((name) => `${quote(name)} = default`),
  ]
  return {
    text: [
      `merge into ${quoteTable(target)} with (holdlock) as t`,
      `using (values ${given.join(', ')}) as s (${columns.map(quote).join(', ')})`,
      `on ${target.upsertKey.map((name) => sameMssqlKey(`t.${quote(name)}`, `s.${quote(name)}`)).join(' and ')}`,
      ...(changed.length === 0 ? [] : [`when matched then update set ${changed.join(', ')}`]),
      `when not matched then insert (${columns.map(quote).join(', ')})`,
      `values (${columns.map((name) => `s.${quote(name)}`).join(', ')});`,
    ].join(' '),
    values: rows.flatMap(valuesOf),
  }
}

/**
 * The first comparison uses the index. The second compares texts by code points, the third by length, because every comparison
 * ignores blanks at the end. A char column pads texts with blanks.
 */
function sameMssqlKey(column: string, value: string): string {
  const type = `cast(sql_variant_property(${column}, 'BaseType') as nvarchar(128))`
  const isText = `${type} in (N'char', N'varchar', N'nchar', N'nvarchar')`
  const isFilled = `${type} in (N'char', N'nchar')`
  const text = (side: string) => `cast(${side} as nvarchar(4000))`
  const points = (side: string) => `${text(side)} collate Latin1_General_100_BIN2`
  const length = (side: string) => `datalength(${text(side)})`
  return `${column} = ${value} and (not (${isText}) or ${points(column)} = ${points(value)} and (${isFilled} or ${length(column)} = ${length(value)}))`
}

/** The update of an upsert on MySQL; openMysql explains why it does not use `on duplicate key update`. */
export function mysqlUpdate(target: SqlTarget, row: SqlRow): SqlStatement {
  const changed = withoutKey(target, givenIn([row]))
  const emptied = defaultsIn([row]).map((name) => `${quoteIdentifier('mysql', name)} = default`)
  const set = changed.length + emptied.length === 0 ? [...target.upsertKey] : changed
  const where = whereKeys(target, [keyOf(target, row)])
  const assignments = [...set.map((name) => `${quoteIdentifier('mysql', name)} = ?`), ...emptied]
  return {
    text: `update ${quoteTable(target)} set ${assignments.join(', ')} where ${where.text}`,
    values: [...set.map((name) => row.get(name) ?? null), ...where.values],
  }
}

/** Inserts rows with the same columns. */
export function mysqlInsert(target: SqlTarget, rows: readonly SqlRow[]): SqlStatement {
  const columns = givenIn(rows).map((name) => quoteIdentifier('mysql', name))
  const places = `(${columns.map(() => '?').join(', ')})`
  return {
    text: `insert into ${quoteTable(target)} (${columns.join(', ')}) values ${rows.map(() => places).join(', ')}`,
    values: rows.flatMap(valuesOf),
  }
}

/**
 * Like mysqlInsert, but changes rows whose key exists. For tables whose primary key is the upsert key, which MySQL checks
 * before any other index.
 *
 * When another row blocks the write, by a similar key or another unique index, the statement sets its key to null. A primary
 * key cannot be null, so the statement fails with 1048 and writes nothing.
 */
export function mysqlUpsert(target: SqlTarget, rows: readonly SqlRow[]): SqlStatement {
  const { text, values } = mysqlInsert(target, rows)
  const quote = (name: string) => quoteIdentifier('mysql', name)
  const changed = withoutKey(target, givenIn(rows)).map(quote)
  const emptied = defaultsIn(rows).map((name) => `${quote(name)} = default`)
  const keys = target.upsertKey.map(quote)
  const same = keys.map((name) => `cast(${name} as binary) = cast(values(${name}) as binary)`)
  const guarded = keys.map((name) => `${name} = if(${same.join(' and ')}, ${name}, null)`)
  const set = [...guarded, ...changed.map((name) => `${name} = values(${name})`), ...emptied]
  return { text: `${text} on duplicate key update ${set.join(', ')}`, values }
}

/** Reads the keys, as text in the order of `upsertKey`, of rows that MySQL considers equal to these keys. */
export function mysqlSimilarKeys(target: SqlTarget, rows: readonly SqlRow[]): SqlStatement {
  const keys = rows.map((row) => keyOf(target, row).map(asMysqlKey))
  const columns = target.upsertKey.map((name) => quoteIdentifier('mysql', name))
  const [column = ''] = columns
  const one = `(${columns.map((name) => `${name} = ?`).join(' and ')})`
  const where =
    columns.length === 1
      ? `${column} in (${keys.map(() => '?').join(', ')})`
      : keys.map(() => one).join(' or ')
  const texts = columns.map((name, index) => `cast(${name} as char) as k${index}`)
  return {
    text: `select ${texts.join(', ')} from ${quoteTable(target)} where ${where}`,
    values: keys.flat(),
  }
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

/** As text: MySQL converts a text column to numbers when it compares it with a number. */
function asMysqlKey(value: SqlValue): SqlValue {
  return typeof value === 'number' ? String(value) : value
}

/** Reads the columns of the primary key by `name`, and whether inserts run triggers, as far as the user may see them. */
export function mysqlKeyQuery({ table }: SqlTarget): SqlStatement {
  const { schema, parts } = mysqlPlace(table)
  return {
    text: `select s.column_name as name,
        exists (select 1 from information_schema.triggers t where t.event_object_schema = s.table_schema
          and t.event_object_table = s.table_name and t.event_manipulation = 'INSERT') as triggers
      from information_schema.statistics s
      where s.table_schema = ${schema} and s.table_name = ? and s.index_name = 'PRIMARY' and s.sub_part is null`,
    values: parts,
  }
}

function mysqlPlace(table: string): { schema: string; parts: string[] } {
  const parts = table.split('.')
  return { schema: parts.length > 1 ? '?' : 'database()', parts }
}

/** @param keys the values of the upsertKey columns, in their order, per row. */
export function deleteStatement(
  target: SqlTarget,
  keys: readonly (readonly SqlValue[])[],
): SqlStatement {
  const where = whereKeys(target, keys)
  return { text: `delete from ${quoteTable(target)} where ${where.text}`, values: where.values }
}

/** Counts the existing rows with these keys, as `there`. */
export function mysqlCount(target: SqlTarget, rows: readonly SqlRow[]): SqlStatement {
  const where = whereKeys(
    target,
    rows.map((row) => keyOf(target, row)),
  )
  return {
    text: `select count(*) as there from ${quoteTable(target)} where ${where.text}`,
    values: where.values,
  }
}

function whereKeys(target: SqlTarget, keys: readonly (readonly SqlValue[])[]): SqlStatement {
  const values: SqlValue[] = []
  const parts = keys.map((key) => whereKey(target, key, values))
  const text = parts.length === 1 ? parts.join('') : parts.map((part) => `(${part})`).join(' or ')
  return { text, values }
}

export function keyOf(target: SqlTarget, row: SqlRow): SqlValue[] {
  return target.upsertKey.map((name) => row.get(name) ?? null)
}

function withoutKey(target: SqlTarget, columns: readonly string[]): string[] {
  return columns.filter((name) => !target.upsertKey.includes(name))
}

/** A number has several spellings, as a UUID does. */
const numeric = /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/

/** Compares texts by their bytes, whatever the column's collation. Adds to `values`. */
function whereKey(target: SqlTarget, key: readonly SqlValue[], values: SqlValue[]): string {
  const parts = target.upsertKey.map((name, index) => {
    const column = quoteIdentifier(target.driver, name)
    const value = key[index] ?? null
    if (target.driver !== 'mysql') {
      values.push(value)
      // The first comparison gives the parameter the column's type, so that its text has the same format.
      if (target.driver === 'postgres') {
        return `${column} = $${values.length} and ${samePostgresKey(column, `$${values.length}`)}`
      }
      return sameMssqlKey(column, `@p${values.length - 1}`)
    }
    if (value instanceof Date || value instanceof Uint8Array || typeof value === 'boolean') {
      values.push(value)
      return `${column} = ?`
    }
    // As text: MySQL converts a text column to numbers when it compares it with a number, and '5abc' to 5.
    const text = String(value)
    values.push(text)
    if (isUuid(text)) return `${column} = ?`
    values.push(text)
    const sameBytes = `cast(cast(${column} as char) as binary) = cast(? as binary)`
    // Columns of numbers have the charset binary and are compared by value. For text columns MySQL would take '5abc' for 5.
    if (numeric.test(text))
      return `${column} = ? and (charset(${column}) = 'binary' or ${sameBytes})`
    return `${column} = ? and ${sameBytes}`
  })
  return parts.join(' and ')
}

/** Reads the columns whose type needs a conversion, by `name` and `kind`. */
export function columnsQuery({ driver, table }: SqlTarget): SqlStatement {
  if (driver === 'postgres') {
    return {
      text: `select a.attname as name, case when t.typcategory = 'A' then 'list' when t.typname = 'bytea' then 'bytes' else 'json' end as kind
        from pg_attribute a join pg_type t on t.oid = a.atttypid
        where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped
          and (t.typcategory = 'A' or t.oid in ('bytea'::regtype, 'json'::regtype, 'jsonb'::regtype))`,
      values: [quoteTable({ driver, table })],
    }
  }
  if (driver === 'mssql') {
    return {
      text: `select name, case when type_name(system_type_id) in (N'binary', N'varbinary', N'image') then N'bytes' else N'text' end as kind
        from sys.columns where object_id = object_id(@p0)
          and type_name(system_type_id) in (N'binary', N'varbinary', N'image', N'char', N'varchar', N'nchar', N'nvarchar', N'text', N'ntext')`,
      values: [quoteTable({ driver, table })],
    }
  }
  const { schema, parts } = mysqlPlace(table)
  return {
    text: `select column_name as name, case when data_type = 'json' then 'json' when data_type like '%char' or data_type like '%text' then 'text'
        else 'bytes' end as kind
      from information_schema.columns where table_schema = ${schema} and table_name = ?
        and data_type in ('binary', 'varbinary', 'tinyblob', 'blob', 'mediumblob', 'longblob', 'json',
          'char', 'varchar', 'tinytext', 'text', 'mediumtext', 'longtext')`,
    values: parts,
  }
}

/** Finds a row with an equal key by the column's rules, which mysqlUpdate has not found by its bytes. */
export function mysqlSimilarKey(target: SqlTarget, row: SqlRow): SqlStatement {
  const where = target.upsertKey.map((name) => `${quoteIdentifier('mysql', name)} = ?`)
  return {
    text: `select 1 from ${quoteTable(target)} where ${where.join(' and ')} limit 1`,
    values: keyOf(target, row).map(asMysqlKey),
  }
}
