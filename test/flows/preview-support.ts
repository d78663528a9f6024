import { sql } from 'kysely'
import type { Database } from '../../src/db/database.ts'

/** The contents of every table, by its name; the caller leaves out those that background loops write. */
export async function contentsOf(
  database: Database,
  isSelected: (table: string) => boolean = () => true,
): Promise<Record<string, string>> {
  const { rows: tables } = await sql<{ name: string }>`
    select format('%I.%I', table_schema, table_name) as name from information_schema.tables
    where table_schema = 'public' and table_type = 'BASE TABLE'
    order by 1`.execute(database.db)
  const contents: Record<string, string> = {}
  for (const { name } of tables.filter((table) => isSelected(table.name))) {
    const { rows } = await sql<{ text: string | null }>`
      select json_agg(one order by one::text)::text as text
      from ${sql.raw(name)} as one`.execute(database.db)
    contents[name] = rows[0]?.text ?? ''
  }
  return contents
}
