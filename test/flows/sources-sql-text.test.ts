import { expect, test } from 'vitest'
import { wallClockOf } from '../../src/domain/time-zone.ts'
import { bindParameters, itemPieces, withoutTail } from '../../src/flows/sources/sql-statement.ts'
import { type SqlDialect, scanSql } from '../../src/flows/sources/sql-text.ts'
import { SourceError } from '../../src/flows/types.ts'

const parameters = {
  cursor: '2026-01-02T03:04:05.678Z',
  key: { fields: ['a', 'b'], values: ['1', 'x|y'] },
}

const bind = (sql: string, dialect: SqlDialect) =>
  bindParameters(withoutTail(scanSql(sql, dialect)), dialect, parameters)

// Each text contains `:pk` only where it is no parameter.
const untouched: Record<SqlDialect, string[]> = {
  postgres: [
    `select ':pk', 'it''s :pk', "a :pk", "a"":pk"`,
    `select E'a\\':pk', e'\\\\', 'a\\'`,
    `select $$ :pk ' $$, $x1$ :pk $$ $x1$`,
    'select 1 -- :pk',
    'select /* :pk /* :pk */ :pk */ 1',
    'select a::pk, a[1:pk], f(x)[(1):pk]',
    "select 'unclosed :pk",
  ],
  mysql: [
    `select ':pk', 'a\\':pk', "b\\":pk", \`c\`\`:pk\``,
    'select 1 # :pk',
    'select 1 -- :pk',
    'select /* /* :pk */ 1',
  ],
  mssql: [
    `select ':pk', 'a\\', [b :pk]]:pk], "c :pk"`,
    'select 1 -- :pk',
    'select /* /* :pk */ :pk */ geography::pk',
  ],
  firebird: [
    `select ':pk', 'it''s :pk', "a :pk", 'a\\', ':pk'`,
    `select q'{it's :pk}', Q'!a' :pk!'`,
    'select 1 -- :pk',
    'select /* /* :pk */ 1',
    "select q'[unclosed :pk",
  ],
}
for (const dialect of ['postgres', 'mysql', 'mssql', 'firebird'] as const) {
  test.each(untouched[dialect])(`${dialect} does not change texts and comments: %s`, (sql) => {
    const pieces = scanSql(sql, dialect)
    expect(pieces.map(({ text }) => text).join('')).toBe(sql)
    expect(pieces.filter(({ kind }) => kind === 'parameter')).toEqual([])
  })
}

test.each([
  ['postgres', `select '' , :pk, $1$, a--:pk\n, :cursor`],
  ['postgres', `select e':pk''', 'x\\', :pk, nice'y\\', :cursor`],
  ['mysql', 'select 1--1, :pk /* x */, :cursor'],
  ['mssql', 'select [a]]:pk], :pk, :cursor'],
  ['firebird', `select faq'x', q'(a')', :pk, 'b', :cursor`],
] as const)(
  '%s finds the parameters after something that looks like a text: %s',
  (dialect, sql) => {
    const names = scanSql(sql, dialect).filter(({ kind }) => kind === 'parameter')
    expect(names.map(({ text }) => text)).toEqual(['pk', 'cursor'])
  },
)

test('every parameter has the placeholder of its driver and its own value', () => {
  const sql = 'select * from t where a = :key_1 and b=:key_b and c in (:pk,:pk) and d >= :cursor;'
  const values = ['1', 'x|y', '1|x\\|y', '1|x\\|y']
  expect(bind(sql, 'postgres')).toEqual({
    text: 'select * from t where a = $1 and b=$2 and c in ($3,$4) and d >= $5',
    values: [...values, '2026-01-02T03:04:05.678Z'],
  })
  expect(bind(sql, 'mysql')).toEqual({
    text: 'select * from t where a = ? and b=? and c in (?,?) and d >= ?',
    values: [...values, '2026-01-02 03:04:05.678'],
  })
  expect(bind(sql, 'mssql')).toEqual({
    text: 'select * from t where a = @tb1 and b=@tb2 and c in (@tb3,@tb4) and d >= @tb5',
    values: [...values, '2026-01-02T03:04:05.678'],
  })
})

test('a key of one field is its value, unescaped', () => {
  const key = { fields: ['a'], values: ['x|y\\'] }
  const pieces = scanSql('select :pk', 'postgres')
  expect(bindParameters(pieces, 'postgres', { cursor: undefined, key }).values).toEqual(['x|y\\'])
})

test('times of another zone are converted to UTC, and other values stay unchanged', () => {
  const values = (cursor: string) =>
    bindParameters(scanSql('select :cursor', 'mysql'), 'mysql', { cursor, key: undefined }).values
  expect(values('2026-01-01T00:00:00-03:00')).toEqual(['2026-01-01 03:00:00.000'])
  expect(values('12345678901234567890')).toEqual(['12345678901234567890'])
  expect(values('2026-01-01')).toEqual(['2026-01-01'])
})

test('a parameter without a value is an error that names it', () => {
  const nothing = { cursor: undefined, key: undefined }
  for (const name of ['cursor', 'pk', 'key_1', 'cursr', 'key_zz']) {
    const pieces = scanSql(`select :${name}`, 'postgres')
    expect(() => bindParameters(pieces, 'postgres', nothing)).toThrow(SourceError)
    expect(() => bindParameters(pieces, 'postgres', nothing)).toThrow(`:${name},`)
  }
})

const item = (sql: string, dialect: SqlDialect, fields = ['a']) =>
  itemPieces(sql, dialect, fields)
    ?.map(({ kind, text }) => (kind === 'parameter' ? `:${text}` : text))
    .join('')

test('a query is wrapped for one item, whatever its end', () => {
  expect(item('select 1 as a -- why\n ; -- end', 'postgres')).toBe(
    'select * from (\nselect 1 as a\n) q where q."a" = :key_1',
  )
  expect(item('select 1', 'mysql', ['a`b', 'c'])).toBe(
    'select * from (\nselect 1\n) q where q.`a``b` = :key_1 and q.`c` = :key_2',
  )
  expect(item('select 1', 'mssql', ['a]b'])).toContain('q.[a]]b] = :key_1')
  expect(item("select ';'", 'postgres')).toContain("select ';'\n")
})

test('SQL Server gets ORDER BY in a form that a derived table allows', () => {
  const isAllowed = (sql: string) => item(sql, 'mssql')?.includes('\noffset 0 rows\n')
  expect(isAllowed('select a from t order by a')).toBe(true)
  expect(isAllowed('select a from t order by a -- offset')).toBe(true)
  expect(isAllowed('select a, row_number() over (order by b) from t')).toBe(false)
  expect(isAllowed('select top 5 a from t order by a')).toBe(false)
  expect(isAllowed('select a from t order by a offset 5 rows')).toBe(false)
  expect(isAllowed("select 'order by' from t")).toBe(false)
  expect(item('with x as (select 1 a) select a from x', 'mssql')).toBeUndefined()
  expect(item('with x as (select 1 a) select a from x', 'postgres')).toBeDefined()
})

test.each<[SqlDialect, string, string]>([
  ['postgres', '2026-11-01T05:30:00Z', '2026-11-01T00:59:59'],
  ['mysql', '2026-11-01T05:30:00Z', '2026-11-01 00:59:59.999'],
  ['mssql', '2026-11-01T06:30:00Z', '2026-11-01T00:59:59.999'],
  ['firebird', '2026-11-01T06:30:00Z', '2026-11-01 00:59:59.999'],
  ['mysql', '2026-11-01T07:00:00Z', '2026-11-01 02:00:00.000'],
])('%s reads from before the hour that the clock shows twice: %s', (dialect, cursor, value) => {
  const pieces = scanSql('select a from b where c >= :cursor', dialect)
  const clock = wallClockOf('America/New_York')
  expect(bindParameters(pieces, dialect, { cursor, clock, key: undefined }).values).toEqual([value])
})
