import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** The ERP writes a key or a code in another form. The receiver takes both for one, so a delete would take the living row. */
const postgresUrl = process.env.TEST_DATABASE_URL || 'postgres://root@127.0.0.1:5432/test'
let target: TestTarget
let flows: TestFlows
const client = new pg.Client({ connectionString: postgresUrl, connectionTimeoutMillis: 2_000 })
const hasPostgres = await client.connect().then(
  () => true,
  () => {
    process.stderr.write('skipped: PostgreSQL does not answer\n')
    return false
  },
)

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows({ env: { COPY_DB: postgresUrl } })
})
afterAll(async () => {
  if (hasPostgres) await client.end()
  await flows?.stop()
  await target?.close()
})

const deletes = { mode: 'delete', guard: { emptySource: 'allow', maxPercent: 100, minItems: 0 } }
const retry = { attempts: 2, initial: '100ms', max: '100ms', jitter: 0 }
let serial = 0

async function serve(destination: object) {
  serial += 1
  const name = `form-${serial}`
  await flows.write(
    `${name}.flow.yaml`,
    jsonFlow(name, target.url, {
      ...{ startPaused: false, deletes, item: { key: 'id' } },
      destinations: [{ name: 'web', retry, ...destination }],
    }),
  )
  await flows.write(`${name}.json`, [])
  await flows.call('POST', '/flows/reload')
  onTestFinished(async () => {
    await flows.remove(`${name}.flow.yaml`)
    await flows.call('POST', '/flows/reload')
  })
  const show = async (...items: object[]) => {
    await flows.write(`${name}.json`, items)
    const polled = await flows.call('POST', `/sync/${name}`)
    expect(polled.statusCode, polled.body).toBe(200)
    await flows.ended()
  }
  const deleteOf = async (pk: string) => {
    const { destinations } = (await flows.call('GET', `/flow/${name}/items/${pk}`)).json()
    const [{ state, why }] = destinations
    return { state, code: why?.code, pk: why?.data?.pk }
  }
  return { name, show, deleteOf }
}

const forms: [what: string, type: string, before: string, after: string][] = [
  ['decimals', 'numeric', '1', '1.00'],
  ['decimals of a numeric', 'numeric(12,2)', '7', '7.0'],
  ['zeros', 'bigint', '00042', '42'],
  ['a sign', 'integer', '5', '+5'],
  ['a sign of 0', 'numeric', '0', '-0'],
]

describe.skipIf(!hasPostgres).each(forms)('%s in a column %s', (_, type, before, after) => {
  test('the row stays, and a person is told of the delete', { tags: ['long'] }, async () => {
    const table = `form_of_identity_${serial}`
    await client.query(`drop table if exists ${table}`)
    await client.query(`create table ${table} (id ${type} primary key, name text)`)
    onTestFinished(async () => void (await client.query(`drop table ${table}`)))
    const to = { type: 'sql', driver: 'postgres', url: '$' + '{env:COPY_DB}', table }
    const { show, deleteOf } = await serve({ ...to, upsertKey: ['id'] })
    await show({ id: before, name: 'old' }, { id: '9', name: 'other' })
    await show({ id: after, name: 'new' }, { id: '9', name: 'other' })
    const { rows } = await client.query(`select name from ${table} order by name`)
    expect(rows.map(({ name }) => name)).toEqual(['new', 'other'])
    expect(await deleteOf(before)).toEqual({ state: 'failed', code: 'DELETE_ALIKE', pk: after })
  })
})

/** What receivers take for one code. */
const alike: [what: string, before: string, after: string][] = [
  ['case', 'ab-1', 'AB-1'],
  ['zeros', '00042', '42'],
  ['decimals', '1', '1.00'],
  ['an accent, as MySQL compares', 'PINON', 'PIÑON'],
  ['a sharp s, as MySQL compares', 'MASSE', 'MAßE'],
]
const folded = (code: string) => {
  const plain = code.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase().replaceAll('ß', 'ss')
  return /^[\d.]+$/.test(plain) ? String(Number(plain)) : plain.trim()
}

/** A receiver that knows articles by the folded code. */
function serveFolding() {
  const rows = new Map<string, { number: number; name: string }>()
  const answer = (method: string, path: string, body: unknown): [number, object] => {
    const [, , kind, value = ''] = path.split('/')
    const code = decodeURIComponent(value)
    if (kind === 'number') {
      const [key] = [...rows].find(([, one]) => one.number === Number(code)) ?? []
      if (key === undefined) return [404, {}]
      if (method === 'DELETE') rows.delete(key)
      else rows.set(key, { number: Number(code), name: (body as { name: string }).name })
      return [200, { number: Number(code) }]
    }
    const key = folded(code || (body as { id: string }).id)
    const known = rows.get(key)
    if (method === 'GET') return known ? [200, { number: known.number }] : [404, {}]
    if (method === 'DELETE') return [rows.delete(key) ? 200 : 404, {}]
    const number = known?.number ?? rows.size + 1
    rows.set(key, { number, name: (body as { name: string }).name })
    return [200, { number }]
  }
  const made = new WeakMap<object, [number, object]>()
  const once = (request: { method: string; path: string; body: unknown }) => {
    const one = made.get(request) ?? answer(request.method, request.path, request.body)
    made.set(request, one)
    return one
  }
  target.answer(
    (request) => once(request)[0],
    { 'content-type': 'application/json' },
    (request) => JSON.stringify(once(request)[1]),
  )
  return rows
}

const ways: Record<string, (place: string) => object> = {
  'a field of the body': (place) => ({
    request: { method: 'PUT', url: `${place}/code/{body.id}` },
    delete: { url: `${place}/code/{body.id}` },
  }),
  'what is remembered': (place) => ({
    find: { url: `${place}/code/{body.id}`, remember: { number: '$.number' } },
    create: { url: `${place}/code` },
    request: { method: 'PUT', url: `${place}/number/{remembered.number}` },
    delete: { url: `${place}/number/{remembered.number}` },
    remember: { number: '$.number' },
  }),
  'the key': (place) => ({
    request: { method: 'PUT', url: `${place}/code/{pk}` },
    delete: { url: `${place}/code/{pk}` },
  }),
}

describe.each(Object.entries(ways))(
  'an HTTP destination that is deleted by %s',
  (way, requests) => {
    test.each(alike)('%s: the row stays', { tags: ['long'] }, async (_, before, after) => {
      const rows = serveFolding()
      const { show, deleteOf } = await serve({
        type: 'http',
        ...requests(`${target.url}/${serial}`),
      })
      await show({ id: before, name: 'old' }, { id: '9', name: 'other' })
      await show({ id: after, name: 'new' }, { id: '9', name: 'other' })
      expect([...rows.values()].map(({ name }) => name).sort()).toEqual(['new', 'other'])
      const isKnown = way === 'what is remembered'
      expect(await deleteOf(encodeURIComponent(before))).toMatchObject(
        isKnown
          ? { state: 'skipped', code: 'DELETE_CLAIMED' }
          : { state: 'failed', code: 'DELETE_ALIKE' },
      )
    })
  },
)
