import { sql } from 'kysely'
import type { Trx } from '../../db/database.ts'

/** Moves all that is stored of a flow to another name. Nothing may be stored under that name. */
export async function renameFlow(trx: Trx, from: string, to: string): Promise<void> {
  const { rows } = await sql<{ table: string }>`
    select relname as "table" from pg_class join pg_attribute on attrelid = pg_class.oid
    where relnamespace = current_schema()::regnamespace and relkind = 'r'
      and attname = 'flow' and not attisdropped
    order by relname`.execute(trx)
  await trx
    .updateTable('flow_state')
    .set((eb) => ({ key_name: eb.fn.coalesce('key_name', 'flow') }))
    .where('flow', '=', from)
    .execute()
  for (const { table } of rows) {
    await sql`update ${sql.table(table)} set flow = ${to} where flow = ${from}`.execute(trx)
  }
}
