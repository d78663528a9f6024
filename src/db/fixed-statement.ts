import { CompiledQuery } from 'kysely'
import type { Db, Trx } from './database.ts'

/**
 * A statement whose text never changes, with values named `:so` in it. Built once, so that a call costs nothing but its
 * round trip. One name has one type: write `:name::uuid` where PostgreSQL could not tell it.
 */
export function fixedStatement<Values extends Record<string, unknown>, Row>(
  text: string,
): (db: Db | Trx, values: Values) => Promise<Row[]> {
  const names: string[] = []
  const numbered = text.replace(/(?<!:):([a-z]\w*)/g, (_, name: string) => {
    if (!names.includes(name)) names.push(name)
    return `$${names.indexOf(name) + 1}`
  })
  const built: CompiledQuery<Row> = CompiledQuery.raw(numbered)
  return async (db, values) => {
    const parameters = names.map((name) => values[name] ?? null)
    const { rows } = await db.executeQuery<Row>({ ...built, parameters })
    return rows
  }
}
