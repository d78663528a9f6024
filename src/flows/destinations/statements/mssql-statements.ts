import { sql } from 'kysely'
import {
  allOf,
  compile,
  defaultsIn,
  deleteByKeys,
  givenIn,
  namesOf,
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
 * One statement for rows with the same columns. `holdlock` makes a second writer of the same key wait until the insert;
 * Kysely's own merge has no such hint.
 */
export function mssqlUpsert(target: SqlTarget, rows: readonly SqlRow[]): SqlStatement {
  const columns = givenIn(rows)
  const given = columns.map((name) => sql.id('s', name))
  const same = target.upsertKey.map((name) => sameKey(sql.id('t', name), sql.id('s', name)))
  const changed = [
    ...withoutKey(target, columns).map((name) => sql`${sql.id(name)} = ${sql.id('s', name)}`),
    ...defaultsIn(rows),
  ]
  const change =
    changed.length === 0 ? sql`` : sql`when matched then update set ${sql.join(changed)} `
  return compile(
    'mssql',
    sql`merge into ${tableOf(target)} with (holdlock) as t using (values ${valuesOf(rows)}) as s (${namesOf(columns)}) on ${allOf(same)} ${change}when not matched then insert (${namesOf(columns)}) values (${sql.join(given)});`,
  )
}

/** Deletes the rows with these keys. */
export function mssqlDelete(target: SqlTarget, keys: readonly SqlKey[]): SqlStatement {
  return deleteByKeys(target, keys, sameKey)
}

/**
 * The first comparison uses the index. The second compares texts by code points, the third by length, because every comparison
 * ignores blanks at the end. A char column pads texts with blanks.
 */
function sameKey(column: SqlPart, value: SqlPart): SqlPart {
  const type = sql`cast(sql_variant_property(${column}, 'BaseType') as nvarchar(128))`
  const isText = sql`${type} in (N'char', N'varchar', N'nchar', N'nvarchar')`
  const isFilled = sql`${type} in (N'char', N'nchar')`
  const text = (side: SqlPart) => sql`cast(${side} as nvarchar(4000))`
  const points = (side: SqlPart) => sql`${text(side)} collate Latin1_General_100_BIN2`
  const length = (side: SqlPart) => sql`datalength(${text(side)})`
  return sql`${column} = ${value} and (not (${isText}) or ${points(column)} = ${points(value)} and (${isFilled} or ${length(column)} = ${length(value)}))`
}

/** Reads the columns whose type needs a conversion, by `name` and `kind`. */
export function mssqlColumnsQuery(target: SqlTarget): SqlStatement {
  return compile(
    'mssql',
    sql`select name, case when type_name(system_type_id) in (N'binary', N'varbinary', N'image') then N'bytes' else N'text' end as kind
      from sys.columns where object_id = object_id(${tableText(target)})
        and type_name(system_type_id) in (N'binary', N'varbinary', N'image', N'char', N'varchar', N'nchar', N'nvarchar', N'text', N'ntext')`,
  )
}
