import { sql } from 'kysely'
import {
  allOf,
  compile,
  defaultsIn,
  deleteByKeys,
  givenIn,
  keyOf,
  namesOf,
  placeholder,
  type SqlKey,
  type SqlPart,
  type SqlRow,
  type SqlStatement,
  type SqlTarget,
  tableOf,
  tableText,
  valuesOf,
  withoutKey,
} from './sql-statement.ts'

/**
 * One statement that inserts rows with the same columns, or changes the rows with the same key. It needs a unique index on the
 * key. It changes no row whose key is only equal by the column's rules, such as citext or a case-insensitive collation.
 */
export function postgresUpsert(target: SqlTarget, rows: readonly SqlRow[]): SqlStatement {
  return insertOrChange(target, rows, sql`values ${valuesOf(rows)}`)
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
  const lists: SqlPart[] = []
  for (const name of givenIn(rows)) {
    const type = types.of.get(name)
    if (type === undefined) return undefined
    lists.push(sql`${rows.map((row) => row.get(name) ?? null)}::${sql.raw(type)}[]`)
  }
  const given = sql`select * from unnest(${sql.join(lists)}) where (${allTypes(target)}) = ${types.all}::text`
  return insertOrChange(target, rows, given)
}

/** Reads the columns' `name` and `type`; `all` is in each row. */
export function postgresTypesQuery(target: SqlTarget): SqlStatement {
  // A type needs usage permission, and some types separate list elements by another character than a comma.
  return compile(
    'postgres',
    sql`select a.attname as name, quote_ident(n.nspname) || '.' || quote_ident(t.typname) as type,
        (${allTypes(target)}) as all
      from pg_attribute a join pg_type t on t.oid = a.atttypid join pg_namespace n on n.oid = t.typnamespace
      where a.attrelid = to_regclass(${tableText(target)}) and a.attnum > 0 and not a.attisdropped
        and t.typarray <> 0 and t.typcategory <> 'A' and t.typdelim = ','
        and has_schema_privilege(n.oid, 'usage') and has_type_privilege(t.oid, 'usage')`,
  )
}

/** A text that changes when a column's type changes. */
function allTypes(target: SqlTarget): SqlPart {
  return sql`select string_agg(attname || ' ' || atttypid, ',' order by attnum) from pg_attribute
      where attrelid = to_regclass(${tableText(target)}) and attnum > 0 and not attisdropped`
}

/** `given` returns the rows, with the columns that get a value. */
function insertOrChange(target: SqlTarget, rows: readonly SqlRow[], given: SqlPart): SqlStatement {
  const columns = givenIn(rows)
  const excluded = (names: readonly string[]) =>
    names.map((name) => sql`${sql.id(name)} = ${sql.id('excluded', name)}`)
  const changed = [...excluded(withoutKey(target, columns)), ...defaultsIn(rows)]
  // A row with only a key sets the key to itself. Otherwise an existing row would look like a blocked one.
  const set = changed.length === 0 ? excluded(target.upsertKey) : changed
  const same = target.upsertKey.map((name) => sameKey(sql.id('t', name), sql.id('excluded', name)))
  return compile(
    'postgres',
    sql`insert into ${tableOf(target)} as t (${namesOf(columns)}) ${given} on conflict (${namesOf(target.upsertKey)}) do update set ${sql.join(set)} where ${allOf(same)}`,
  )
}

/**
 * Finds a row with a similar key that blocks postgresUpsert. Without one, a trigger may have skipped the row, which is
 * allowed.
 */
export function postgresSimilarKey(target: SqlTarget, row: SqlRow): SqlStatement {
  const key = target.upsertKey.map((name, index) => ({
    column: sql.id(name),
    value: placeholder('postgres', index),
  }))
  const equal = allOf(key.map(({ column, value }) => sql`${column} = ${value}`))
  const same = allOf(key.map(({ column, value }) => sameKey(column, value)))
  const { text } = compile(
    'postgres',
    sql`select 1 from ${tableOf(target)} where ${equal} and not (${same}) limit 1`,
  )
  return { text, values: keyOf(target, row) }
}

/** Deletes the rows with these keys. */
export function postgresDelete(target: SqlTarget, keys: readonly SqlKey[]): SqlStatement {
  return deleteByKeys(
    target,
    keys,
    (column, value) => sql`${column} = ${value} and ${sameKey(column, value)}`,
  )
}

/**
 * Numbers are compared by value, because a number has several spellings. A comparison of the same parameter beside this one
 * gives it the column's type, so that its text has the same format.
 */
function sameKey(column: SqlPart, value: SqlPart): SqlPart {
  return sql`(pg_typeof(${column}) = any('{numeric,real,double precision}'::regtype[]) or ${column}::text collate "C" = ${value}::text)`
}

/** Reads the columns whose type needs a conversion, by `name` and `kind`. */
export function postgresColumnsQuery(target: SqlTarget): SqlStatement {
  return compile(
    'postgres',
    sql`select a.attname as name, case when t.typcategory = 'A' then 'list' when t.typname = 'bytea' then 'bytes' else 'json' end as kind
      from pg_attribute a join pg_type t on t.oid = a.atttypid
      where a.attrelid = to_regclass(${tableText(target)}) and a.attnum > 0 and not a.attisdropped
        and (t.typcategory = 'A' or t.oid in ('bytea'::regtype, 'json'::regtype, 'jsonb'::regtype))`,
  )
}
