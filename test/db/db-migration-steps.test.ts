import { readdir, readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { migrationsFolder } from '../../src/db/migrate.ts'

/** Until a version is released, a change of the tables is made in these. */
const baseline = 10
/** What a process of the version before does not tolerate: it still reads and writes the tables as they were. */
const breaking: [what: string, form: RegExp][] = [
  ['removes a table', /\bdrop table\b/],
  ['removes a column', /\bdrop column\b/],
  ['renames', /\brename\b/],
  ['changes a type', /\balter column \w+ (set data )?type\b/],
  ['forbids null', /\bset not null\b/],
  ['wants a value that nobody gives', /\badd column (?![^,;]*\bdefault\b)[^,;]*\bnot null\b/],
  ['takes a default away', /\bdrop default\b/],
]

/** What is wrong with the first line of a migration, or with what it does under it; `all` are the names of all. */
function problemsOf(name: string, text: string, all: readonly string[]): string[] {
  const [, kind, reason = ''] = /^-- (expand|contract): (\S.*)/.exec(text) ?? []
  if (kind === undefined) return ['begins with neither -- expand: nor -- contract:']
  if (kind === 'contract') {
    const expanded = /^of (\d{4}_\w+\.sql)/.exec(reason)?.[1] ?? ''
    return all.includes(expanded) && expanded < name ? [] : ['names no migration before it']
  }
  const statements = text.replaceAll(/--.*/g, '').toLowerCase().replaceAll(/\s+/g, ' ')
  return breaking.flatMap(([what, form]) => (form.test(statements) ? [what] : []))
}

test('every migration after the first ones declares whether the version before may run beside it, and has no statement that would break that one', async () => {
  const all = (await readdir(migrationsFolder)).sort()
  const problems = await Promise.all(
    all
      .slice(baseline)
      .map(async (name) =>
        problemsOf(name, await readFile(migrationsFolder + name, 'utf8'), all).map(
          (problem) => `${name} ${problem}`,
        ),
      ),
  )
  expect(problems.flat()).toEqual([])
})

test.each<[text: string, problem: string | undefined]>([
  ['alter table orders add column a int;', 'begins with neither'],
  ['-- expand:\nselect 1;', 'begins with neither'],
  ['-- expand: new\nalter table orders add column a int;', undefined],
  ['-- expand: new\nalter table orders add column a int not null default 0;', undefined],
  ['-- expand: new\nalter table orders add column a int not null;', 'wants a value'],
  ['-- expand: new\nalter table orders\n  drop column a;', 'removes a column'],
  ['-- expand: new\nalter table orders rename a to b;', 'renames'],
  ['-- expand: new\nalter table orders alter column a type text;', 'changes a type'],
  ['-- expand: new\nalter table orders alter column a set not null;', 'forbids null'],
  ['-- expand: new\n-- drop table later\ncreate table a (n int not null);', undefined],
  ['-- contract: of 0001_a.sql\nalter table orders drop column a;', undefined],
  ['-- contract: of 0009_z.sql\nalter table orders drop column a;', 'names no migration'],
])('%j: %s', (text, problem) => {
  const found = problemsOf('0002_b.sql', text, ['0001_a.sql', '0002_b.sql', '0009_z.sql'])
  if (problem === undefined) expect(found).toEqual([])
  else expect(found).toEqual([expect.stringContaining(problem)])
})
