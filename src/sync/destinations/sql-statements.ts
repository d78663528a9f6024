export type SqlDriver = 'postgres' | 'mysql' | 'mssql'

/** A value as drivers take it; lists and objects are JSON text by then. */
export type SqlValue = string | number | boolean | null | Date | Uint8Array | SqlList

/** For a column that is an array; PostgreSQL only. */
export type SqlList = readonly unknown[]

export type SqlStatement = { text: string; values: SqlValue[] }

export type SqlTarget = {
  driver: SqlDriver
  table: string
  upsertKey: readonly string[]
  /** What the text is that goes into a column of bytes. */
  binary?: Readonly<Record<string, 'base64' | 'text'>> | undefined
}

/** Columns that take something else than texts, numbers and the like. */
export type SqlColumns = ReadonlyMap<string, 'bytes' | 'list' | 'json'>

/** By column. `undefined`: the item no longer has the field, so the column gets its default. */
export type SqlRow = ReadonlyMap<string, SqlValue | undefined>

/** Bytes for PostgreSQL, which cuts longer names silently, else characters. */
const longestName = { postgres: 63, mysql: 64, mssql: 128 } as const

/** A name that no statement can hold; `message` names it. */
export class IdentifierError extends Error {}

/** Rows by the thousand have the same few columns. */
const quoted: Record<SqlDriver, Map<string, string>> = {
  postgres: new Map(),
  mysql: new Map(),
  mssql: new Map(),
}
const mostQuoted = 1_000

/**
 * Quotes a name, so that it can only ever be a name; upper and lower case count on PostgreSQL from then on.
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
    throw new IdentifierError(`${JSON.stringify(name)} cannot be the name of a column or table`)
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
 * One statement that inserts the rows, all of the same columns, or changes those with the same key; needs a unique index on
 * the key. It touches no row where there is one whose key only counts as equal in its column, as with citext or a collation that is blind to case.
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

/** The types of a table's columns as they were when they were asked for; `all` is what they are compared by. */
export type PostgresTypes = { all: string; of: ReadonlyMap<string, string> }

/**
 * As postgresUpsert, with a list for each column in place of a parameter for each value, which takes both sides half of the
 * work. Lists have to be told their type, so no row is written where the types are no longer those. Undefined where a column
 * is of a type that has no such lists, or is not there.
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

/** Of a table with that name, by `name` and `type`; `all` stands in each row. */
export function postgresTypesQuery(target: SqlTarget): SqlStatement {
  return {
    // What may not be named cannot be asked for, and a comma is not between the parts of every type.
    text: `select a.attname as name, quote_ident(n.nspname) || '.' || quote_ident(t.typname) as type,
        (${allTypes('$1')}) as all
      from pg_attribute a join pg_type t on t.oid = a.atttypid join pg_namespace n on n.oid = t.typnamespace
      where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped
        and t.typarray <> 0 and t.typcategory <> 'A' and t.typdelim = ','
        and has_schema_privilege(n.oid, 'usage') and has_type_privilege(t.oid, 'usage')`,
    values: [quoteTable(target)],
  }
}

/** What says whether the columns of a table are still of the same types. */
function allTypes(table: string): string {
  return `select string_agg(attname || ' ' || atttypid, ',' order by attnum) from pg_attribute
      where attrelid = to_regclass(${table}) and attnum > 0 and not attisdropped`
}

/** The columns that get a value, of rows that are alike in that. */
function givenIn([first]: readonly SqlRow[]): string[] {
  return [...(first ?? [])].flatMap(([name, value]) => (value === undefined ? [] : [name]))
}

/** The columns that get their default, of rows that are alike in that. */
function defaultsIn([first]: readonly SqlRow[]): string[] {
  return [...(first ?? [])].flatMap(([name, value]) => (value === undefined ? [name] : []))
}

function valuesOf(row: SqlRow): SqlValue[] {
  return [...row.values()].filter((value) => value !== undefined)
}

/** `given` gives the rows, with the columns that get a value. */
function insertOrChange(target: SqlTarget, rows: readonly SqlRow[], given: string): string {
  const quote = (name: string) => quoteIdentifier('postgres', name)
  const columns = givenIn(rows)
  const changed = withoutKey(target, columns).map(
    (name) => `${quote(name)} = excluded.${quote(name)}`,
  )
  const emptied = defaultsIn(rows).map((name) => `${quote(name)} = default`)
  // A row of its key alone is set to what it is: else one that was there and one that only looks alike would be the same.
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

/** Whether a row is there that keeps postgresUpsert from its work; a trigger may have done so too, and that is its right. */
export function postgresLookAlike(target: SqlTarget, row: SqlRow): SqlStatement {
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

/** Of numbers the value counts, of which there are several ways to write it. */
function samePostgresKey(column: string, value: string): string {
  return `(pg_typeof(${column}) = any('{numeric,real,double precision}'::regtype[]) or ${column}::text collate "C" = ${value}::text)`
}

/** One statement for rows of the same columns; `holdlock` keeps a second one with the same key waiting between the look and the insert. */
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
 * The first comparison finds the row by its index; the second holds texts together by their code points, the third by their
 * length: every comparison passes over blanks at the end. A char column fills texts up with them.
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

/** The two halves of an upsert on MySQL; see `openMysql` for why not `on duplicate key update`. */
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

/** Of rows with the same columns. */
export function mysqlInsert(target: SqlTarget, rows: readonly SqlRow[]): SqlStatement {
  const columns = givenIn(rows).map((name) => quoteIdentifier('mysql', name))
  const places = `(${columns.map(() => '?').join(', ')})`
  return {
    text: `insert into ${quoteTable(target)} (${columns.join(', ')}) values ${rows.map(() => places).join(', ')}`,
    values: rows.flatMap(valuesOf),
  }
}

/**
 * As mysqlInsert, but rows whose key is there are changed: for tables whose primary key is the key, which is looked at before any
 * other index. Where another row is in the way, by a key that only counts as equal or by another unique index, its key would
 * become null, which no primary key can be: the statement fails with 1048 and nothing of it stays.
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

/** The keys, as text in the order of `upsertKey`, of the rows whose keys count as equal to these. */
export function mysqlKeysAlike(target: SqlTarget, rows: readonly SqlRow[]): SqlStatement {
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
 * A key as it reads in its columns, to be held beside what `mysqlKeysAlike` finds; undefined where a value has several ways to be
 * read. Of numbers the value counts.
 */
export function mysqlKeyText(key: readonly unknown[]): string | undefined {
  const texts = key.map((value) => {
    if (typeof value !== 'string' && typeof value !== 'number') return undefined
    const text = String(value)
    return numeric.test(text) && text.includes('.') ? text.replace(/\.?0+$/, '') : text
  })
  return texts.includes(undefined) ? undefined : JSON.stringify(texts)
}

/** As text: MySQL turns a text column into numbers to compare it with a number. */
function asMysqlKey(value: SqlValue): SqlValue {
  return typeof value === 'number' ? String(value) : value
}

/** Asks for the whole columns of the primary key by `name`, and whether inserts run triggers, as far as one may see them. */
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

/** @param keys each with the values of the upsertKey columns, in their order. */
export function deleteStatement(
  target: SqlTarget,
  keys: readonly (readonly SqlValue[])[],
): SqlStatement {
  const where = whereKeys(target, keys)
  return { text: `delete from ${quoteTable(target)} where ${where.text}`, values: where.values }
}

/** How many rows of these keys there are, as `there`. */
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

/** What of a key is a number or a UUID, which have several ways to be written. */
const numeric = /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/
const uuid = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i

/** Texts count as equal by their bytes, whatever the collation of their column says. `values` are added to. */
function whereKey(target: SqlTarget, key: readonly SqlValue[], values: SqlValue[]): string {
  const parts = target.upsertKey.map((name, index) => {
    const column = quoteIdentifier(target.driver, name)
    const value = key[index] ?? null
    if (target.driver !== 'mysql') {
      values.push(value)
      // The parameter gets the type of the column by the first comparison, so that its text is written alike.
      if (target.driver === 'postgres') {
        return `${column} = $${values.length} and ${samePostgresKey(column, `$${values.length}`)}`
      }
      return sameMssqlKey(column, `@p${values.length - 1}`)
    }
    if (value instanceof Date || value instanceof Uint8Array || typeof value === 'boolean') {
      values.push(value)
      return `${column} = ?`
    }
    // As text: MySQL turns a text column into numbers to compare it with a number, and '5abc' into 5.
    const text = String(value)
    values.push(text)
    if (uuid.test(text)) return `${column} = ?`
    values.push(text)
    const sameBytes = `cast(cast(${column} as char) as binary) = cast(? as binary)`
    // Columns of numbers have the charset binary. Their value counts, but beside one MySQL would take '5abc' for 5.
    if (numeric.test(text))
      return `${column} = ? and (charset(${column}) = 'binary' or ${sameBytes})`
    return `${column} = ? and ${sameBytes}`
  })
  return parts.join(' and ')
}

/** Asks for the columns of the table that take bytes, lists or JSON, by `name` and `kind`; undefined where it makes no difference. */
export function columnsQuery({ driver, table }: SqlTarget): SqlStatement | undefined {
  if (driver === 'postgres') {
    return {
      text: `select a.attname as name, case when t.typcategory = 'A' then 'list' when t.typname = 'bytea' then 'bytes' else 'json' end as kind
        from pg_attribute a join pg_type t on t.oid = a.atttypid
        where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped
          and (t.typcategory = 'A' or t.oid in ('bytea'::regtype, 'json'::regtype, 'jsonb'::regtype))`,
      values: [quoteTable({ driver, table })],
    }
  }
  // SQL Server itself refuses a text for a column of bytes.
  if (driver === 'mssql') return undefined
  const { schema, parts } = mysqlPlace(table)
  return {
    text: `select column_name as name, case data_type when 'json' then 'json' else 'bytes' end as kind from information_schema.columns
      where table_schema = ${schema} and table_name = ?
        and data_type in ('binary', 'varbinary', 'tinyblob', 'blob', 'mediumblob', 'longblob', 'json')`,
    values: parts,
  }
}

/** Whether a row is there whose key counts as equal in its columns, whatever its bytes: what mysqlUpdate has not found. */
export function mysqlLookAlike(target: SqlTarget, row: SqlRow): SqlStatement {
  const where = target.upsertKey.map((name) => `${quoteIdentifier('mysql', name)} = ?`)
  return {
    text: `select 1 from ${quoteTable(target)} where ${where.join(' and ')} limit 1`,
    values: keyOf(target, row).map(asMysqlKey),
  }
}
