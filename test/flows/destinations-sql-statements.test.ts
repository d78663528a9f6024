import { expect, test } from 'vitest'
import { deletedKey, rowOf } from '../../src/flows/destinations/sql-row.ts'
import {
  mssqlDelete,
  mssqlUpsert,
} from '../../src/flows/destinations/statements/mssql-statements.ts'
import {
  mysqlDelete,
  mysqlInsert,
  mysqlUpdate,
} from '../../src/flows/destinations/statements/mysql-statements.ts'
import {
  postgresDelete,
  postgresUpsert,
} from '../../src/flows/destinations/statements/postgres-statements.ts'
import {
  checkNames,
  IdentifierError,
  type SqlDriver,
  type SqlTarget,
  tableText,
} from '../../src/flows/destinations/statements/sql-statement.ts'
import { mssqlConfig } from '../../src/flows/net/mssql-connection.ts'
import { job } from './destinations-job.ts'

const drivers = ['postgres', 'mysql', 'mssql'] as const
const target = (driver: SqlDriver, upsertKey = ['id']): SqlTarget => ({
  driver,
  table: 'erp.stores',
  upsertKey,
})
const row = new Map([
  ['id', 'SUC-1'],
  ['na"me', 'x'],
])

const samePostgres = (column: string, value: string) =>
  `(pg_typeof(${column}) = any('{numeric,real,double precision}'::regtype[]) or ${column}::text collate "C" = ${value}::text)`

test('PostgreSQL: one insert with on conflict changes only a row of exactly the same key', () => {
  expect(postgresUpsert(target('postgres'), [row])).toEqual({
    text: `insert into "erp"."stores" as t ("id", "na""me") values ($1, $2) on conflict ("id") do update set "na""me" = "excluded"."na""me" where ${samePostgres('"t"."id"', '"excluded"."id"')}`,
    values: ['SUC-1', 'x'],
  })
  const alone = postgresUpsert(target('postgres'), [new Map([['id', 1]])]).text
  expect(alone).toContain('do update set "id" = "excluded"."id" where')
})

const sameMssql = (column: string, value: string) => {
  const type = `cast(sql_variant_property(${column}, 'BaseType') as nvarchar(128))`
  const text = (side: string) => `cast(${side} as nvarchar(4000))`
  const points = (side: string) => `${text(side)} collate Latin1_General_100_BIN2`
  // SQL Server ignores trailing blanks in every comparison of texts.
  const lengths = `datalength(${text(column)}) = datalength(${text(value)})`
  return `${column} = ${value} and (not (${type} in (N'char', N'varchar', N'nchar', N'nvarchar')) or ${points(column)} = ${points(value)} and (${type} in (N'char', N'nchar') or ${lengths}))`
}

test('SQL Server: one merge keeps its lock', () => {
  expect(mssqlUpsert(target('mssql'), [row])).toEqual({
    text: `merge into [erp].[stores] with (holdlock) as t using (values (@1, @2)) as s ([id], [na"me]) on ${sameMssql('[t].[id]', '[s].[id]')} when matched then update set [na"me] = [s].[na"me] when not matched then insert ([id], [na"me]) values ([s].[id], [s].[na"me]);`,
    values: ['SUC-1', 'x'],
  })
  expect(mssqlUpsert(target('mssql'), [new Map([['id', 1]])]).text).not.toContain('when matched')
})

const sameMysql = (column: string) => `cast(cast(${column} as char) as binary) = cast(? as binary)`

test('MySQL: an update by key, then an insert', () => {
  expect(mysqlUpdate(target('mysql'), row)).toEqual({
    text: `update \`erp\`.\`stores\` set \`na"me\` = ? where \`id\` = ? and ${sameMysql('`id`')}`,
    values: ['x', 'SUC-1', 'SUC-1'],
  })
  expect(mysqlInsert(target('mysql'), [row])).toEqual({
    text: 'insert into `erp`.`stores` (`id`, `na"me`) values (?, ?)',
    values: ['SUC-1', 'x'],
  })
})

test('a delete has every part of the key', () => {
  const key = ['a', 5]
  expect(postgresDelete(target('postgres', ['x', 'y']), [key])).toEqual({
    text: `delete from "erp"."stores" where "x" = $1 and ${samePostgres('"x"', '$1')} and "y" = $2 and ${samePostgres('"y"', '$2')}`,
    values: ['a', 5],
  })
  expect(mssqlDelete(target('mssql', ['x', 'y']), [key])).toEqual({
    text: `delete from [erp].[stores] where ${sameMssql('[x]', '@1')} and ${sameMssql('[y]', '@2')}`,
    values: ['a', 5],
  })
  expect(mysqlDelete(target('mysql', ['x', 'y']), [key])).toEqual({
    text: `delete from \`erp\`.\`stores\` where \`x\` = ? and ${sameMysql('`x`')} and \`y\` = ? and (charset(\`y\`) = 'binary' or ${sameMysql('`y`')})`,
    values: ['a', 'a', '5', '5'],
  })
})

test('several rows are one statement, several keys one condition', () => {
  const rows = [row, new Map([...row, ['id', 'SUC-2']])]
  const texts = {
    postgres: 'values ($1, $2), ($3, $4) on conflict',
    mssql: 'using (values (@1, @2), (@3, @4)) as s ([id], [na"me]) on',
  }
  const made = {
    postgres: postgresUpsert(target('postgres'), rows),
    mssql: mssqlUpsert(target('mssql'), rows),
  }
  for (const driver of ['postgres', 'mssql'] as const) {
    expect(made[driver].text).toContain(texts[driver])
    expect(made[driver].values).toEqual(['SUC-1', 'x', 'SUC-2', 'x'])
  }
  expect(mysqlInsert(target('mysql'), rows).text).toMatch(/ values \(\?, \?\), \(\?, \?\)$/)
  const removal = postgresDelete(target('postgres'), [['a'], ['b']])
  expect(removal.text).toBe(
    `delete from "erp"."stores" where ("id" = $1 and ${samePostgres('"id"', '$1')}) or ("id" = $2 and ${samePostgres('"id"', '$2')})`,
  )
  expect(removal.values).toEqual(['a', 'b'])
})

test('names are quoted so that no name ends its quotes', () => {
  const quoted = (driver: SqlDriver, table: string) => tableText({ driver, table })
  expect(quoted('postgres', 'a"; drop table x --')).toBe('"a""; drop table x --"')
  expect(quoted('mysql', 'a`; drop')).toBe('`a``; drop`')
  expect(quoted('mssql', 'a]; [drop')).toBe('[a]]; [drop]')
  expect(mssqlUpsert(target('mssql'), [new Map([['[a]', 1]])]).text).toContain('insert ([[a]]])')
})

test('names that a database would cut or refuse are errors', () => {
  for (const driver of drivers) {
    for (const name of ['', 'a\0b', 'a\nb', 'x'.repeat(129), '\ud800']) {
      expect(() => checkNames(driver, ['id', name])).toThrow(IdentifierError)
    }
  }
  // 32 characters, 64 bytes.
  expect(() => checkNames('postgres', ['ñ'.repeat(32)])).toThrow(IdentifierError)
  expect(() => checkNames('mysql', ['ñ'.repeat(64)])).not.toThrow()
})

test('a row has a column per field; lists and objects are JSON text', () => {
  const body = { id: 1, list: [1], object: { a: null }, yes: true, none: null }
  expect(rowOf(target('postgres'), body)).toEqual({
    row: new Map<string, unknown>([
      ['id', 1],
      ['list', '[1]'],
      ['object', '{"a":null}'],
      ['yes', true],
      ['none', null],
    ]),
  })
})

test('only whole ISO times become dates, and only for MySQL', () => {
  const at = '2026-11-21T14:30:00.000Z'
  const values = (driver: SqlDriver, value: string) => {
    const made = rowOf(target(driver), { id: 1, value })
    return 'row' in made ? made.row.get('value') : made
  }
  expect(values('mysql', at)).toEqual(new Date(at))
  expect(values('postgres', at)).toBe(at)
  expect(values('mysql', '2026-11-21')).toBe('2026-11-21')
  expect(values('mysql', '2026-99-21T14:30:00Z')).toBe('2026-99-21T14:30:00Z')
})

test('a row without its key, or without fields, is a problem', () => {
  for (const body of [{ name: 'x' }, { id: null }, [], 'x', null, undefined]) {
    expect(rowOf(target('postgres'), body)).toHaveProperty('problem')
  }
})

test('the key of a delete comes from its body, and each of its values must be present and not empty', () => {
  const two = target('postgres', ['x', 'y'])
  const deletion = (body: unknown) =>
    deletedKey(two, job({ kind: 'delete', body, key: ['A', 'B'] }))
  expect(deletion({ y: 2, x: 1, other: 3 })).toEqual({ key: [1, 2] })
  for (const body of [null, undefined, { x: 1 }, { x: 1, y: null }, { x: 1, y: ' ' }]) {
    expect(deletion(body)).toHaveProperty('problem')
  }
})

test('a row with an empty key is not written', () => {
  const two = target('postgres', ['x', 'y'])
  expect(rowOf(two, { x: 'A', y: '' })).toEqual({
    problem: { code: 'KEY_EMPTY', data: { column: 'y' } },
  })
})

test('an address of SQL Server may be a URL or a connection string', () => {
  expect(
    mssqlConfig(
      'mssql://us%40er:p%2Fw@db.local:1444/er%20p?encrypt=false&trustServerCertificate=true',
    ),
  ).toMatchObject({
    server: 'db.local',
    port: 1444,
    user: 'us@er',
    password: 'p/w',
    database: 'er p',
    options: { encrypt: false, trustServerCertificate: true },
  })
  const named = mssqlConfig('mssql://db.local/erp?encrypt=1&instanceName=ERP')
  expect(named).toEqual({
    ...{ server: 'db.local', database: 'erp' },
    options: { encrypt: true, trustServerCertificate: false, instanceName: 'ERP' },
  })
  expect(mssqlConfig('Server=db.local,1444;Database=erp;User Id=u;Password=p')).toMatchObject({
    server: 'db.local',
    port: 1444,
    user: 'u',
    database: 'erp',
  })
})
