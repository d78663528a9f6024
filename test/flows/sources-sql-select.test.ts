import { expect, test } from 'vitest'
import { selectProblem } from '../../src/flows/sources/sql-select.ts'
import type { SqlDialect } from '../../src/flows/sources/sql-text.ts'
import { sentenceOf } from '../../src/texts/reason.ts'
import { flowText, problemsOf } from './definition-support.ts'
import { reachable, readAll, readItem, sqlSource } from './sources-sql-support.ts'

test.each<[SqlDialect, string]>([
  ['postgres', 'select * from a where b = :c'],
  ['postgres', '-- all\n( select 1 ) union all select 2;'],
  ['postgres', 'WITH x AS (select 1) SELECT * FROM x ; -- end'],
  ['postgres', `select "delete", 'insert into; drop' as update from t`],
  ['mysql', 'with recursive a as (select 1 union select 2) select * from a'],
  ['mysql', 'select `into` from t'],
  ['mssql', 'select top 5 [update], a from t inner merge join u on t.a = u.a option (merge union)'],
  ['mssql', "select 'exec' as x from t with (nolock)"],
])('%s: a query that only reads is accepted: %s', (dialect, sql) => {
  expect(selectProblem(sql, dialect)).toBeUndefined()
})

test.each<[SqlDialect, string, string]>([
  ['postgres', 'delete from t', 'does not begin with SELECT or WITH'],
  ['postgres', ' /* select */ update t set a = 1', 'does not begin with SELECT or WITH'],
  ['mysql', 'call p()', 'does not begin with SELECT or WITH'],
  ['mssql', 'exec sp_articulos', 'does not begin with SELECT or WITH'],
  ['postgres', 'select 1; drop table t', 'holds a second statement'],
  ['postgres', 'select * into b from a', 'writes with INTO'],
  ['mysql', "select 1 into outfile '/tmp/a'", 'writes with INTO'],
  ['mysql', "select 1 /*! into outfile '/tmp/a' */", 'holds a comment that is executed'],
  ['mysql', "select 1 /*M! into outfile '/tmp/a' */", 'holds a comment that is executed'],
  ['mssql', 'with a as (select 1 x) delete from t', 'writes with DELETE'],
  ['mysql', 'with a as (select 1 x) update t set a = 1', 'writes with UPDATE'],
  ['postgres', 'select * from t for  update', 'locks rows (for update)'],
  ['mysql', 'select * from t lock in share mode', 'locks rows (lock in share mode)'],
  ['mssql', 'select 1 drop table t', 'holds the word drop, which begins a statement of its own'],
  ['mssql', 'select 1\nexec p', 'holds the word exec, which begins a statement of its own'],
])('%s: a query that does more is refused: %s', (dialect, sql, message) => {
  const found = selectProblem(sql, dialect)
  expect(found && sentenceOf(found, 'en')).toBe(message)
})

const sqlSourceText = (...lines: string[]) => ({
  source: ['source:', '  type: sql', '  driver: postgres', '  url: postgres://h/d', ...lines].join(
    '\n',
  ),
})

test('a check names the statement and the parameter that are wrong', () => {
  expect(
    problemsOf(
      flowText(
        sqlSourceText(
          '  query: |',
          '    select 1;',
          '    drop table t',
          '  itemQuery: delete from t where id = :pk',
          '  parameters: { sucursal: 3, pk: 4, "a b": 1, lista: [1], n: 9007199254740993 }',
          '  cursor: { field: id, initial: 9007199254740993 }',
        ),
      ),
    ),
  ).toEqual([
    '12:30 source.parameters.pk: is a name of the service itself',
    '12:37 source.parameters."a b": must be a name of letters, digits and _',
    '12:54 source.parameters.lista: must be a text, a number, true or false',
    '12:62 source.parameters.n: is beyond the numbers that are kept exactly (write it as a text, in quotes)',
    '13:33 source.cursor.initial: is beyond the numbers that are kept exactly (write it as a text, in quotes)',
  ])
  expect(
    problemsOf(
      flowText(
        sqlSourceText(
          '  query: |',
          '    select 1;',
          '    drop table t where a = :lista',
          '  itemQuery: delete from t where id = :pk',
          '  parameters: { sucursal: 3 }',
        ),
      ),
    ),
  ).toEqual([
    '8:10 source.query: holds a second statement (a query is one SELECT, or WITH … SELECT)',
    "8:10 source.query: has the parameter :lista, which has no value (known here: :sucursal; write a colon that is none as text: ':')",
    '11:14 source.itemQuery: does not begin with SELECT or WITH (a query is one SELECT, or WITH … SELECT)',
    '12:17 source.parameters.sucursal: is used neither by query nor by itemQuery (write :sucursal where its value belongs, without quotes)',
  ])
})

const servers = [
  [
    'postgres',
    await reachable(
      process.env.TEST_DATABASE_URL || 'postgres://root@127.0.0.1:5432/test',
      'PostgreSQL (TEST_DATABASE_URL)',
    ),
  ],
  ['mysql', await reachable('mysql://root@127.0.0.1:3306/test', 'MariaDB')],
] as const

for (const [driver, url] of servers) {
  test.skipIf(!url)(`${driver}: parameters are bound, whatever they hold`, async () => {
    const hostile = `x' or '1'='1`
    const source = sqlSource({
      driver,
      url: url as string,
      query: `select id, t from (select 1 as id, 'a' as t union all select 2, 'b' union all select 3, :name) q
        where id >= :least and t <> :name`,
      itemQuery: 'select * from (select 1 as id) q where id = :pk and 3 >= :least',
      parameters: { least: 2, name: hostile },
    })
    expect(await readAll(source)).toEqual([{ id: 2, t: 'b' }])
    expect(await readItem(source, '1')).toEqual([{ id: 1 }])
    await source.close()
  })
}

test.skipIf(!servers[0][1])(
  'a parameter that its column cannot contain fails the read of one item and is not shown',
  async () => {
    const source = sqlSource({
      driver: 'postgres',
      url: servers[0][1] as string,
      query: 'select 1 as id',
      itemQuery: 'select * from (select 1 as id) q where id = :pk and id <= :least',
      parameters: { least: '$' + '{env:LEAST}' },
      env: { LEAST: 'a-secret-word' },
    })
    const failure = await readItem(source, '1').catch((error: Error) => error.message)
    expect(failure).toMatch(
      /^postgres source: 22P02: invalid input syntax for type integer: "\*\*\*"/,
    )
    await source.close()
  },
)
