import { mkdir, readFile, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { compileMapping } from '../../src/flows/deliver/item-body.ts'
import { givenKey, joinKey, keyText } from '../../src/flows/item/item.ts'
import {
  type FirebirdColumn,
  firebirdText,
  firebirdValue,
} from '../../src/flows/sources/sql-firebird-values.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { reachable } from './sources-sql-support.ts'

/** An item has the same key in a poll, in a single sync, and as text in a path. */
const postgresUrl = await reachable(
  process.env.TEST_DATABASE_URL || 'postgres://root@127.0.0.1:5432/test',
  'PostgreSQL (TEST_DATABASE_URL)',
)
const table = `one_key_${process.pid}`
const nfc = 'Caf\u00e9'
const nfd = 'Cafe\u0301'
let admin: Client | undefined
let target: TestTarget
let flows: TestFlows

const definition = (name: string, change: object = {}) => {
  const flow = jsonFlow(name, target.url, {
    ...{ startPaused: false, item: { key: 'code' } },
    deletes: { mode: 'delete', guard: { maxPercent: 100, minItems: 100 } },
    ...change,
  }) as { destinations: { type: string }[] }
  const request = { method: 'PUT', url: `${target.url}/${name}/{pk}` }
  return {
    ...flow,
    destinations: flow.destinations.map((one) =>
      one.type === 'http'
        ? { ...one, request, delete: { url: `${target.url}/${name}/{pk}` } }
        : one,
    ),
  }
}
const serve = async (name: string, change: object = {}) => {
  await flows.write(`${name}.flow.yaml`, definition(name, change))
  expect((await flows.call('POST', '/flows/reload')).json().problems).toEqual([])
}
const sync = async (name: string) => {
  await flows.call('POST', `/sync/${name}`)
  await flows.delivered()
}
const sent = (name: string) =>
  target.received
    .filter(({ path }) => path.startsWith(`/${name}/`))
    .map(({ method, path }) => `${method} ${decodeURIComponent(path).replace(`/${name}/`, '')}`)
const keysOf = async (flow: string) => {
  const { db } = flows.service.database
  const rows = await db.selectFrom('flow_items').select('pk').where('flow', '=', flow).execute()
  return rows.map(({ pk }) => pk).sort()
}

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows({ env: { ERP: postgresUrl ?? '' } })
  if (!postgresUrl) return
  admin = new Client({ connectionString: postgresUrl })
  await admin.connect()
  await admin.query(`create table ${table} (code char(6) primary key, price int)`)
  await admin.query(`insert into ${table} values ('A', 1), ('B', 1)`)
})
afterAll(async () => {
  await admin?.query(`drop table ${table}`)
  await admin?.end()
  await flows.stop()
  await target.close()
})

test('a key is its text in NFC without trailing blanks, whatever its origin', () => {
  expect([keyText('A  '), keyText(' A\t'), keyText(7), keyText(7n), keyText(nfd)]).toEqual([
    'A',
    ' A\t',
    '7',
    '7',
    nfc,
  ])
  for (const [given, expected] of [
    ['A   ', 'A'],
    ['A  |B ', 'A|B'],
    ['A \\| |B', 'A \\||B'],
    [`${nfd} `, nfc],
    [`A${' '.repeat(50_000)}B`, `A${' '.repeat(50_000)}B`],
  ]) {
    expect(givenKey(given ?? '')).toBe(expected)
  }
  expect(givenKey(joinKey(['A| ', 'B']))).toBe(joinKey(['A|', 'B']))
})

test.skipIf(!postgresUrl)(
  'polls, single syncs and deletes have the same key for an item of a CHAR(n) column',
  async () => {
    await serve('char', {
      source: {
        type: 'sql',
        driver: 'postgres',
        url: `\${env:ERP}`,
        query: `select * from ${table}`,
      },
    })
    await sync('char')
    expect(await keysOf('char')).toEqual(['A', 'B'])
    await admin?.query(`update ${table} set price = 2 where code = 'A'`)
    for (const pk of ['A', 'A%20%20%20%20%20']) {
      const synced = await flows.call('POST', `/sync/char/${pk}`)
      expect([synced.statusCode, synced.json().pk]).toEqual([200, 'A'])
    }
    expect(await keysOf('char')).toEqual(['A', 'B'])
    await admin?.query(`delete from ${table} where code = 'A'`)
    await sync('char')
    await flows.delivered()
    expect(sent('char').filter((one) => one.startsWith('DELETE'))).toEqual(['DELETE A'])
    expect(new Set(sent('char').map((one) => one.split(' ')[1]))).toEqual(new Set(['A', 'B']))
  },
)

test.skipIf(!postgresUrl)(
  'a key that ends in a blank or is in another Unicode form is found again, by query and by itemQuery',
  async () => {
    await admin?.query(`create table ${table}_loose (code text, price int)`)
    onTestFinished(() => admin?.query(`drop table ${table}_loose`).then(() => undefined))
    await admin?.query(`insert into ${table}_loose values ('A ', 1), ($1, 1), ($2, 1)`, [
      nfd,
      `${nfd}  `.replace('C', 'D'),
    ])
    const query = `select * from ${table}_loose`
    const sqlFrom = { type: 'sql', driver: 'postgres', url: `\${env:ERP}`, query }
    const keys = ['A', nfc, nfc.replace('C', 'D')]
    for (const [name, more] of Object.entries({
      loose: {},
      'loose-item': { itemQuery: `${query} where code = :pk` },
    })) {
      await serve(name, { source: { ...sqlFrom, ...more } })
      await sync(name)
      expect(await keysOf(name)).toEqual(keys)
      for (const pk of keys) {
        await admin?.query(`update ${table}_loose set price = price + 1`)
        const one = await flows.call('POST', `/sync/${name}/${encodeURIComponent(pk)}`)
        expect(one.json(), `${name} ${pk}`).toMatchObject({ pk, found: true, changed: true })
      }
      for (const pk of ['B', 'a', 'Cafe']) {
        const none = await flows.call('POST', `/sync/${name}/${pk}`)
        expect([none.statusCode, none.json().found], `${name} ${pk}`).toEqual([200, false])
      }
    }
  },
)

test.skipIf(!postgresUrl)(
  'a changed group whose key ends in a blank is sent by an incremental poll',
  async () => {
    await admin?.query(`create table ${table}_ends (code text, box text, at timestamptz)`)
    onTestFinished(() => admin?.query(`drop table ${table}_ends`).then(() => undefined))
    await serve('ends', {
      source: {
        ...{ type: 'sql', driver: 'postgres', url: `\${env:ERP}`, fullScanEvery: '24h' },
        query: `select * from ${table}_ends where at >= :cursor order by code, box`,
        cursor: { field: 'at', initial: '2026-01-01' },
        groupBy: { children: { boxes: ['box', 'at'] } },
      },
    })
    for (const box of ['1', '2']) {
      await admin?.query(`insert into ${table}_ends values ($1, $2, $3)`, [
        `${nfd} `,
        box,
        `2026-01-0${box}`,
      ])
      await sync('ends')
    }
    expect(sent('ends')).toEqual([`PUT ${nfc}`, `PUT ${nfc}`])
    expect(target.received.at(-1)).toMatchObject({ body: { boxes: [{ box: '1' }, { box: '2' }] } })
  },
)

test('two Unicode forms of a letter are the same key in a file, a single sync and a reset', async () => {
  await serve('forms')
  await flows.write('forms.json', [{ code: nfd, price: 1 }])
  await sync('forms')
  await flows.write('forms.json', [{ code: nfc, price: 1 }])
  await sync('forms')
  expect(sent('forms')).toEqual([`PUT ${nfc}`])
  for (const form of [nfc, nfd]) {
    const one = await flows.call('POST', `/sync/forms/${encodeURIComponent(form)}`)
    expect([one.statusCode, one.json().pk]).toEqual([200, nfc])
    const reset = await flows.call('DELETE', `/reset/forms/${encodeURIComponent(form)}`)
    expect(reset.json()).toMatchObject({ pk: nfc, existed: true })
    await sync('forms')
  }
})

test('a group with its key as a number in one record and a text in the next is one item', async () => {
  await serve('groups', {
    item: { key: 'code' },
    source: {
      ...{ type: 'file', path: join(flows.dir, 'groups.json'), format: 'json', settle: '0s' },
      groupBy: { children: { boxes: ['box'] } },
    },
  })
  await flows.write('groups.json', [
    { code: 7, box: 'a' },
    { code: '7', box: 'b' },
    { code: '7  ', box: 'c' },
  ])
  const polled = await flows.call('POST', '/sync/groups')
  expect(polled.statusCode, polled.body).toBe(200)
  await flows.delivered()
  expect(target.received.filter(({ path }) => path.startsWith('/groups/'))).toMatchObject([
    { path: '/groups/7', body: { boxes: [{ box: 'a' }, { box: 'b' }, { box: 'c' }] } },
  ])
})

const trimmed = { item: { key: 'code', hash: { trim: true, decimals: { branch: 1 } } } }

test('a key that item.hash changes is found by a single sync of a file', async () => {
  await serve('trimmed', { item: { ...trimmed.item, key: ['code', 'branch'] } })
  const put = (price: number) => flows.write('trimmed.json', [{ code: '  A', branch: 1, price }])
  await put(1)
  await sync('trimmed')
  expect(await keysOf('trimmed')).toEqual(['A|1.0'])
  await put(2)
  expect((await flows.call('POST', '/sync/trimmed/A%7C1.0')).json()).toMatchObject({
    found: true,
    changed: true,
  })
})

test('files of changes with a key in two forms wait for each other', async () => {
  const dir = join(flows.dir, 'forms-of-changes')
  await mkdir(dir)
  await serve('padded', {
    ...trimmed,
    ...{ deletes: { mode: 'ignore' }, startPaused: true },
    source: {
      ...{ type: 'file', path: join(dir, '*.json'), format: 'json' },
      ...{ settle: '0s', after: 'delete' },
    },
  })
  for (const [minute, code] of ['  A', 'A'].entries()) {
    const path = join(dir, `${minute}.json`)
    await writeFile(path, JSON.stringify([{ code, price: minute }]))
    const at = new Date(Date.UTC(2026, 0, 1, 0, minute))
    await utimes(path, at, at)
  }
  for (const price of [0, 1]) {
    await flows.call('POST', '/sync/padded?force=true')
    await flows.delivered()
    expect(target.received.at(-1)).toMatchObject({ path: '/padded/A', body: { price } })
  }
})

test.skipIf(!postgresUrl)(
  'a changed group whose key has blanks at its start is sent by an incremental poll, and found by a single sync',
  async () => {
    await admin?.query(`create table ${table}_boxes (code text, box text, at timestamptz)`)
    onTestFinished(() => admin?.query(`drop table ${table}_boxes`).then(() => undefined))
    const put = (box: string) =>
      admin?.query(`insert into ${table}_boxes values ('  A', $1, $2)`, [box, `2026-01-0${box}`])
    await serve('boxes', {
      ...trimmed,
      source: {
        ...{ type: 'sql', driver: 'postgres', url: `\${env:ERP}`, fullScanEvery: '24h' },
        query: `select * from ${table}_boxes where at >= :cursor order by code, box`,
        cursor: { field: 'at', initial: '2026-01-01' },
        groupBy: { children: { boxes: ['box', 'at'] } },
      },
    })
    await put('1')
    await sync('boxes')
    await put('2')
    await sync('boxes')
    expect(target.received.at(-1)).toMatchObject({
      path: '/boxes/A',
      body: { boxes: [{ box: '1' }, { box: '2' }] },
    })
    await put('3')
    const one = await flows.call('POST', '/sync/boxes/A')
    expect(one.json()).toMatchObject({ found: true, changed: true })
  },
)

describe('keys that were stored with blanks', () => {
  /** With a table that a later migration drops. */
  const migration = async () => {
    const file = join(import.meta.dirname, '../../migrations/0101_keys_without_blanks.sql')
    return `create table remembered_values (flow text, destination text, pk text);
      ${await readFile(file, 'utf8')};
      drop table remembered_values`
  }

  test('are the same items afterwards: nothing is sent again or deleted', async () => {
    await serve('old')
    await flows.write('old.json', [
      { code: 'A    ', price: 1 },
      { code: 'B', price: 1 },
    ])
    await sync('old')
    const { db } = flows.service.database
    const before = target.received.length
    for (const name of ['flow_items', 'deliveries', 'item_versions', 'item_attempts'])
      await sql`update ${sql.table(name)} set pk = 'A    ' where flow = 'old' and pk = 'A'`.execute(
        db,
      )
    await sql.raw(await migration()).execute(db)
    await sync('old')
    expect(await keysOf('old')).toEqual(['A', 'B'])
    expect(target.received.length).toBe(before)
    await flows.write('old.json', [{ code: 'B', price: 1 }])
    await sync('old')
    expect(sent('old').at(-1)).toBe('DELETE A')
  })

  test('are replaced by the same item that was stored without them', async () => {
    const { db } = flows.service.database
    for (const pk of ['A', 'A ', 'A  ', 'B  ', 'B   ', 'C \\||D '])
      await sql`insert into flow_items (flow, pk, hash, changed_at) values ('twice', ${pk}, 'h', now())`.execute(
        db,
      )
    await sql.raw(await migration()).execute(db)
    expect(await keysOf('twice')).toEqual(['A', 'B', 'C \\||D'])
  })
})

describe('values', () => {
  test('NUMERIC of Firebird’s dialect 1 has the digits of its type, not of its binary form', () => {
    const clock = undefined
    const column = { alias: 'p', type: 480, subType: 1, scale: -2, length: 8 } as FirebirdColumn
    const read = (value: number, scale: number) =>
      firebirdValue(value, { ...column, scale }, { text: firebirdText('UTF8'), clock })
    expect([
      read(0.1 + 0.2, -2),
      read(1234.5600000000002, -2),
      read(-0.1, -4),
      read(7, -2),
    ]).toEqual(['0.30', '1234.56', '-0.1000', '7.00'])
    expect(read(0.1 + 0.2, 0)).toBe(0.1 + 0.2)
  })

  test.each(['woocommerce', 'tiendanube', 'shopify', 'mercadolibre'])(
    'the template of %s leaves out a price or stock that is null or missing',
    async (name) => {
      const file = await readFile(
        join(import.meta.dirname, `../../templates/destinations/${name}.yaml`),
        'utf8',
      )
      const { destinations } = parse(file) as { destinations: { map: string }[] }
      const mapping = compileMapping({ map: destinations[0]?.map ?? '', fields: undefined })
      const item = { codigo: 'A-1', descripcion: 'Yerba' }
      const none = await mapping.apply(item)
      expect(JSON.stringify(none)).not.toMatch(/null|price|stock_quantity|"stock"|available/)
      expect(await mapping.apply({ ...item, precio: null, stock: null })).toEqual(none)
      expect(JSON.stringify(await mapping.apply({ ...item, precio: 0, stock: 0 }))).toMatch(
        /price.*0.*(stock|quantity).*0/,
      )
    },
  )

  test.skipIf(!postgresUrl)('a JSON scalar stays the same scalar in a JSON column', async () => {
    const columns = 'code text primary key, doc jsonb'
    await admin?.query(`create table ${table}_from (${columns})`)
    await admin?.query(`create table ${table}_to (${columns})`)
    const documents = ['"abc"', '"5"', '5', 'true', '"null"', '"{"', '{"a": [1]}', '[1, "x"]', '""']
    await admin?.query(
      `insert into ${table}_from select 'K' || place, doc::jsonb from unnest($1::text[]) with ordinality as one (doc, place)`,
      [documents],
    )
    const sqlTo = { type: 'sql', driver: 'postgres', url: `\${env:ERP}` }
    await serve('scalars', {
      source: { ...sqlTo, query: `select * from ${table}_from` },
      destinations: [{ name: 'web', ...sqlTo, table: `${table}_to`, upsertKey: 'code' }],
    })
    await flows.call('POST', '/sync/scalars')
    await flows.delivered()
    const same = await admin?.query(
      `select t.doc::text as doc from ${table}_to t join ${table}_from f using (code) where t.doc = f.doc order by substr(code, 2)::int`,
    )
    expect(same?.rows.map(({ doc }) => doc)).toEqual(documents)
    await admin?.query(`drop table ${table}_from, ${table}_to`)
  })

  test.each([
    ['utf16be with its mark', Buffer.from([0xfe, 0xff]), 'be', 'utf16be', undefined],
    [
      'utf16be with its mark, read as utf16le',
      Buffer.from([0xfe, 0xff]),
      'be',
      'utf16le',
      undefined,
    ],
    [
      'utf16le with its mark, read as utf16be',
      Buffer.from([0xff, 0xfe]),
      'le',
      'utf16be',
      undefined,
    ],
    ['utf16be with its mark, read as utf8', Buffer.from([0xfe, 0xff]), 'be', 'utf8', undefined],
    ['utf16be without a mark', Buffer.alloc(0), 'be', 'utf16be', undefined],
    [
      'utf16be without a mark, read as utf16le',
      Buffer.alloc(0),
      'be',
      'utf16le',
      /looks like utf16be.*encoding: utf16be/,
    ],
    ['utf16le without a mark, read as utf8', Buffer.alloc(0), 'le', 'utf8', /looks like utf16le/],
    [
      'utf16be with its mark, read as latin1',
      Buffer.from([0xfe, 0xff]),
      'be',
      'latin1',
      /mark of utf16be.*encoding: utf16be/,
    ],
  ])(
    'a file in %s has its records, or the error names its encoding',
    async (what, mark, order, encoding, problem) => {
      const name = `wide-${what.replace(/[^a-z0-9]/g, '').slice(0, 40)}`
      const text = Buffer.from('code;name\r\nA-1;Ñandú\r\nA-2;Caña\r\n', 'utf16le')
      await serve(name, {
        source: {
          ...{ type: 'file', path: join(flows.dir, `${name}.csv`), format: 'csv', settle: '0s' },
          csv: { delimiter: ';', encoding },
        },
      })
      const bytes = Buffer.concat([mark, order === 'be' ? text.swap16() : text])
      await writeFile(join(flows.dir, `${name}.csv`), bytes)
      const polled = await flows.call('POST', `/sync/${name}`)
      if (problem) expect(polled.body).toMatch(problem)
      else {
        await flows.delivered()
        expect(polled.statusCode, polled.body).toBe(200)
        const bodies = target.received.filter(({ path }) => path.startsWith(`/${name}/`))
        expect(bodies.map(({ body }) => (body as { name: string }).name).sort()).toEqual([
          'Caña',
          'Ñandú',
        ])
      }
    },
  )
})
