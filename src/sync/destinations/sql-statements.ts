export type SqlDriver = 'postgres' | 'mysql' | 'mssql'

/** A value as drivers take it; lists and objects are JSON text by then. */
export type SqlValue = string | number | boolean | null | Date

export type SqlStatement = { text: string; values: SqlValue[] }

export type SqlTarget = { driver: SqlDriver; table: string; upsertKey: readonly string[] }

export type SqlRow = ReadonlyMap<string, SqlValue>

/** Bytes for PostgreSQL, which cuts longer names silently, else characters. */
const longestName = { postgres: 63, mysql: 64, mssql: 128 } as const

/** A name that no statement can hold; `message` names it. */
export class IdentifierError extends Error {}

/** Quotes a name, so that it can only ever be a name; upper and lower case count on PostgreSQL from then on. */
export function quoteIdentifier(driver: SqlDriver, name: string): string {
  const length = driver === 'postgres' ? Buffer.byteLength(name) : name.length
  if (length === 0 || length > longestName[driver] || /\p{Cc}|\p{Cs}/u.test(name)) {
    throw new IdentifierError(`${JSON.stringify(name)} cannot be the name of a column or table`)
  }
  if (driver === 'postgres') return `"${name.replaceAll('"', '""')}"`
  if (driver === 'mysql') return `\`${name.replaceAll('`', '``')}\``
  return `[${name.replaceAll(']', ']]')}]`
}

/** `erp.stores` becomes `"erp"."stores"`. */
export function quoteTable({ driver, table }: SqlTarget): string {
  return table
    .split('.')
    .map((part) => quoteIdentifier(driver, part))
    .join('.')
}

/** One statement that inserts the row or changes the one with the same key; needs a unique index on the key. */
export function postgresUpsert(target: SqlTarget, row: SqlRow): SqlStatement {
  const quote = (name: string) => quoteIdentifier('postgres', name)
  const columns = [...row.keys()]
  const changed = withoutKey(target, columns).map(
    (name) => `${quote(name)} = excluded.${quote(name)}`,
  )
  return {
    text: [
      `insert into ${quoteTable(target)} (${columns.map(quote).join(', ')})`,
      `values (${columns.map((_, index) => `$${index + 1}`).join(', ')})`,
      `on conflict (${target.upsertKey.map(quote).join(', ')})`,
      changed.length === 0 ? 'do nothing' : `do update set ${changed.join(', ')}`,
    ].join(' '),
    values: [...row.values()],
  }
}

/** One statement; `holdlock` keeps a second one with the same key waiting between the look and the insert. */
export function mssqlUpsert(target: SqlTarget, row: SqlRow): SqlStatement {
  const quote = (name: string) => quoteIdentifier('mssql', name)
  const columns = [...row.keys()]
  const changed = withoutKey(target, columns).map((name) => `${quote(name)} = s.${quote(name)}`)
  return {
    text: [
      `merge into ${quoteTable(target)} with (holdlock) as t`,
      `using (select ${columns.map((name, index) => `@p${index} as ${quote(name)}`).join(', ')}) as s`,
      `on ${target.upsertKey.map((name) => `t.${quote(name)} = s.${quote(name)}`).join(' and ')}`,
      ...(changed.length === 0 ? [] : [`when matched then update set ${changed.join(', ')}`]),
      `when not matched then insert (${columns.map(quote).join(', ')})`,
      `values (${columns.map((name) => `s.${quote(name)}`).join(', ')});`,
    ].join(' '),
    values: [...row.values()],
  }
}

/** The two halves of an upsert on MySQL; see `openMysql` for why not `on duplicate key update`. */
export function mysqlUpdate(target: SqlTarget, row: SqlRow): SqlStatement {
  const columns = [...row.keys()]
  const changed = withoutKey(target, columns)
  const set = changed.length === 0 ? [...target.upsertKey] : changed
  const where = whereKey(target, keyOf(target, row))
  const assignments = set.map((name) => `${quoteIdentifier('mysql', name)} = ?`)
  return {
    text: `update ${quoteTable(target)} set ${assignments.join(', ')} where ${where.text}`,
    values: [...set.map((name) => row.get(name) ?? null), ...where.values],
  }
}

export function mysqlInsert(target: SqlTarget, row: SqlRow): SqlStatement {
  const columns = [...row.keys()].map((name) => quoteIdentifier('mysql', name))
  return {
    text: `insert into ${quoteTable(target)} (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})`,
    values: [...row.values()],
  }
}

/** @param key values of the upsertKey columns, in their order. */
export function deleteStatement(target: SqlTarget, key: readonly SqlValue[]): SqlStatement {
  const where = whereKey(target, key)
  return { text: `delete from ${quoteTable(target)} where ${where.text}`, values: where.values }
}

export function keyOf(target: SqlTarget, row: SqlRow): SqlValue[] {
  return target.upsertKey.map((name) => row.get(name) ?? null)
}

function withoutKey(target: SqlTarget, columns: readonly string[]): string[] {
  return columns.filter((name) => !target.upsertKey.includes(name))
}

function whereKey(target: SqlTarget, key: readonly SqlValue[]): SqlStatement {
  const values: SqlValue[] = []
  const parts = target.upsertKey.map((name, index) => {
    const column = quoteIdentifier(target.driver, name)
    const value = key[index] ?? null
    if (target.driver !== 'mysql') {
      values.push(value)
      return `${column} = ${target.driver === 'postgres' ? `$${values.length}` : `@p${values.length - 1}`}`
    }
    if (value instanceof Date || typeof value === 'boolean') {
      values.push(value)
      return `${column} = ?`
    }
    // As text: MySQL turns a text column into numbers to compare it with a number, and '5abc' into 5.
    const text = String(value)
    values.push(text)
    if (/^-?\d+(\.\d+)?$/.test(text)) return `${column} = ?`
    // And the other way round: beside a number column it would take '5abc' for 5, and hit another row.
    values.push(text)
    return `${column} = ? and cast(${column} as char) = ?`
  })
  return { text: parts.join(' and '), values }
}
