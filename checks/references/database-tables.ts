import { readdirSync, readFileSync } from 'node:fs'
import { sql } from 'kysely'
import type { Db } from '../../src/db/database.ts'
import { migrationsFolder } from '../../src/db/migrate.ts'
import { code, generated, table } from './tables.ts'

type Column = { name: string; type: string; isRequired: boolean; comment: string | null }
type DatabaseTable = { name: string; comment: string | null; columns: Column[] }

/** How a comment of a column begins, where a row has several parts. */
const part = /^(request|state|lease|plan): /

/** The page docs/internals/tables.md: the tables of a migrated database, with the comments that the migrations give them. */
export async function tablesPage(db: Db): Promise<string> {
  const { rows } = await sql<DatabaseTable>`
    select c.relname as name, obj_description(c.oid) as comment, json_agg(json_build_object(
        'name', a.attname, 'type', format_type(a.atttypid, a.atttypmod), 'isRequired', a.attnotnull,
        'comment', col_description(c.oid, a.attnum)) order by a.attnum) as columns
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'v')
      -- A view has the columns of its table too; those of its own have a comment.
      and (c.relkind = 'r' or col_description(c.oid, a.attnum) is not null)
    group by c.oid`.execute(db)
  const tables = new Map(rows.map((row) => [row.name, row]))
  const families = readdirSync(migrationsFolder)
    .sort()
    .map((file) => familyOf(readFileSync(migrationsFolder + file, 'utf8'), tables))
  return `# Tables

For programmers of the service. ${generated} The sentences are the comments of the tables in \`migrations/\`, which a
database shows too (\`\\d+ orders\` in psql). [Retention](retention.md) says how long rows are kept.

- Times are of the service's clock, unless a column says otherwise. Money is whole cents.
- Rows that change have four parts. *request* is set at insert. *state* is what is known. *lease* says who works on the row. *plan* says what happens next.
- A type with \`?\` may be null.

${families.join('\n\n')}
`
}

function familyOf(text: string, tables: ReadonlyMap<string, DatabaseTable>): string {
  const [, title = ''] = /^-- (.*)\.$/m.exec(text) ?? []
  const names = [...text.matchAll(/^create (?:table|view) (\w+)/gm)].map(([, name = '']) => name)
  const found = names.flatMap((name) => tables.get(name) ?? [])
  return [`## ${title}`, ...found.map(describe)].join('\n\n')
}

function describe({ name, comment, columns }: DatabaseTable): string {
  const rows = columns.map((column) => {
    const [, role = ''] = part.exec(column.comment ?? '') ?? []
    const type = column.type.replace('timestamp with time zone', 'timestamptz')
    const meaning = (column.comment ?? '').replace(part, '')
    return [code(column.name), `${type}${column.isRequired ? '' : '?'}`, role, meaning]
  })
  return `### \`${name}\`\n\n${comment}\n\n${table(['Column', 'Type', 'Part', 'Meaning'], rows)}`
}
