import { mkdir, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client } from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { givenKey, joinKey, keyText } from '../../src/flows/item/item.ts'
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
  { tags: ['long'] },
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
  { tags: ['long'] },
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
  { tags: ['long'] },
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
