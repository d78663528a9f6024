import { mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createFlowFiles } from '../../src/flows/workbench/flow-files.ts'
import {
  connectedFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { join as joinAs, ownPage } from '../support/people.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin } from '../support/till.ts'

const token = 'canary-shop-token-0123456789'
let service: TestService
let target: TestTarget
let flows: TestFlows
let serial = 0

beforeAll(async () => {
  service = await startTestService()
  target = await startTarget()
  flows = await startTestFlows({
    service,
    env: { FLOWS_WORKBENCH: 'true', SHOP_TOKEN: token, SHOP_URL: target.url },
  })
  await flows.write('connections.yaml', connections())
})
afterAll(async () => {
  await flows.stop()
  await target.close()
  await service.stop()
})

const next = () => {
  serial += 1
  return `bench${serial}`
}
const definition = (name: string, extra: Record<string, unknown> = {}) =>
  JSON.stringify(connectedFlow(name, extra), undefined, 2)

// biome-ignore-start lint/suspicious/noTemplateCurlyInString: references of the connections
const connections = () => ({
  version: 1,
  connections: {
    files: { type: 'folder', path: '${env:DIR}' },
    'erp-archivos': { type: 'folder', path: '${env:DIR}' },
    shop: { type: 'http', url: target.url, allowPrivateNetwork: true },
    woocommerce: { type: 'http', url: '${env:SHOP_URL}/wp-json/wc/v3', allowPrivateNetwork: true },
    signed: {
      type: 'http',
      url: '${env:SHOP_URL}',
      headers: { authorization: 'Bearer ${env:SHOP_TOKEN}' },
      sign: { secret: '${env:SHOP_TOKEN}' },
      allowPrivateNetwork: true,
    },
  },
})
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: references of the connections
const put = (file: string, text: string, base: string | null) =>
  flows.call('PUT', `/flow-files/${encodeURIComponent(file)}`, { body: { text, base } })
const read = async (file: string) => (await flows.call('GET', `/flow-files/${file}`)).json()
const check = async (text: string, file?: string) =>
  (await flows.call('POST', '/flow-definitions/check', { body: { text, file } })).json()
const dryRun = (text: string) => flows.call('POST', '/flow-definitions/dry-run', { body: { text } })

/** A flow file of its own, saved by the API; answers the name, the file and its hash. */
async function saved(extra: Record<string, unknown> = {}) {
  const name = next()
  const file = `${name}.flow.yaml`
  await flows.write(`${name}.json`, [{ id: '1' }])
  const answer = await put(file, definition(name, extra), null)
  expect(answer.json()).toMatchObject({ file, name, problems: [] })
  return { name, file, hash: String(answer.json().hash) }
}

test('a new flow is saved, runs, and is listed with its file and the templates', async () => {
  const { name, file, hash } = await saved()
  expect(await readFile(join(flows.flowsDir, file), 'utf8')).toBe(definition(name))
  expect((await stat(join(flows.flowsDir, file))).mode & 0o777).toBe(0o644)
  const list = (await flows.call('GET', '/flow-files')).json()
  expect(list).toMatchObject({ folder: flows.flowsDir, read_only: null })
  expect(list.files).toContainEqual({ file, flow: name, problems: 0 })
  expect(list.templates).toContainEqual({ name: 'woocommerce', takes_source: true })
  expect(list.templates).toContainEqual({ name: 'sql-table', takes_source: false })
  expect((await flows.call('GET', '/flows/status')).json()[name]).toMatchObject({ paused: true })
  expect(await read(file)).toMatchObject({ text: definition(name), hash, versions: [] })
})

test('a check says whether a save sends at once, and a dry run counts how much', {
  tags: ['long'],
}, async () => {
  const name = next()
  const rows = Array.from({ length: 25 }, (_, index) => ({ id: String(index) }))
  await flows.write(`${name}.json`, rows)
  const text = definition(name, { startPaused: false })
  expect(await check(text)).toMatchObject({ problems: [], sends_at_once: true })
  expect(await check(definition(name))).toMatchObject({ problems: [], sends_at_once: false })
  expect(await check('{}')).toMatchObject({ sends_at_once: false })
  expect((await dryRun(text)).json()).toMatchObject({ cut_off: 'items', records: { length: 10 } })
  const counted = await flows.call('POST', '/flow-definitions/dry-run', {
    body: { text, count: true },
  })
  expect(counted.json()).toMatchObject({
    cut_off: null,
    records_read: 25,
    records: { length: 10 },
  })
  // One that waits, paused, does not; nor one that has polled.
  const { hash } = (await put(`${name}.flow.yaml`, definition(name), null)).json()
  expect(await check(text)).toMatchObject({ sends_at_once: false })
  await put(`${name}.flow.yaml`, text, hash)
  await flows.call('POST', `/flow/${name}/resume`)
  await expect.poll(() => check(text)).toMatchObject({ sends_at_once: false })
})

test('the replaced version of a save is kept, and can be read and saved again', {
  tags: ['long'],
}, async () => {
  const { name, file, hash } = await saved()
  const later = definition(name, { description: 'second' })
  const second = (await put(file, later, hash)).json()
  const third = (await put(file, definition(name, { description: 'third' }), second.hash)).json()
  const { versions } = await read(file)
  expect(versions).toHaveLength(2)
  const [newest, oldest] = versions
  const age = service.clock.now().getTime() - Date.parse(oldest.replaced_at)
  expect(age).toBeGreaterThanOrEqual(0)
  expect(age).toBeLessThan(60_000)
  const url = (version: string) => `/flow-files/${file}/versions/${version}`
  expect((await flows.call('GET', url(newest.version))).json()).toMatchObject({ text: later })
  const first = (await flows.call('GET', url(oldest.version))).json()
  expect(first).toMatchObject({ text: definition(name), hash })
  expect((await put(file, first.text, third.hash)).json()).toMatchObject({ hash })
  // Copies are no flows.
  const { flows: names, problems } = (await flows.call('POST', '/flows/reload')).json()
  expect(names.filter((one: string) => one === name)).toEqual([name])
  expect(problems).toEqual([])
})

test('the last 50 versions are kept', async () => {
  const dir = join(flows.flowsDir, 'many')
  const files = createFlowFiles(dir, service.clock.now)
  let { hash } = await files.save('a.flow.yaml', Buffer.from('0'), null)
  for (let count = 1; count <= 53; count++) {
    service.clock.advance(1)
    hash = (await files.save('a.flow.yaml', Buffer.from(String(count)), hash)).hash
  }
  const { versions } = await files.read('a.flow.yaml')
  expect(versions).toHaveLength(50)
  expect(await files.readVersion('a.flow.yaml', versions[0]?.version ?? '')).toMatchObject({
    text: '52',
  })
  expect(await files.readVersion('a.flow.yaml', versions[49]?.version ?? '')).toMatchObject({
    text: '3',
  })
})

test('a file that was changed, removed or created meanwhile is not overwritten', {
  tags: ['long'],
}, async () => {
  const { name, file, hash } = await saved()
  await flows.write(file, definition(name, { description: 'by another hand' }))
  const changed = await put(file, definition(name), hash)
  expect([changed.statusCode, changed.json().error]).toEqual([
    409,
    'The file was changed meanwhile; read it again, nothing was saved',
  ])
  expect(await readFile(join(flows.flowsDir, file), 'utf8')).toContain('by another hand')
  expect((await put(file, definition(name), null)).statusCode).toBe(409)
  await flows.remove(file)
  expect((await put(file, definition(name), hash)).statusCode).toBe(409)
  expect(await readdir(flows.flowsDir)).not.toContain(file)
})

test('of two saves at once one is refused', { tags: ['long'] }, async () => {
  const { name, file, hash } = await saved()
  const answers = await Promise.all(
    ['left', 'right'].map((description) => put(file, definition(name, { description }), hash)),
  )
  expect(answers.map(({ statusCode }) => statusCode).sort()).toEqual([200, 409])
})

test('a definition with problems is not saved; the problems have their lines', async () => {
  const { file, hash } = await saved()
  const text = 'version: 1\nname: x\npollInterval: never\n'
  const answer = await put(file, text, hash)
  expect(answer.statusCode).toBe(400)
  expect(answer.json().error).toMatch(/^The definition is wrong at line 1: /)
  const { problems } = await check(text, file)
  expect(problems).toContainEqual(expect.objectContaining({ file, line: 3, key: 'pollInterval' }))
  expect((await read(file)).hash).toBe(hash)
})

test('a definition that would stop another flow is refused, and the other flow continues', async () => {
  const { name } = await saved()
  const answer = await put('other.flow.yaml', definition(name), null)
  expect(answer.statusCode).toBe(400)
  const { problems } = await check(definition(name), 'other.flow.yaml')
  expect(problems[0]).toMatchObject({ key: 'name', file: 'other.flow.yaml' })
  // By itself it is right.
  expect(await check(definition(name))).toMatchObject({ name, problems: [] })
  expect((await flows.call('GET', '/flows/status')).json()[name]).toBeDefined()
  expect(await readdir(flows.flowsDir)).not.toContain('other.flow.yaml')
})

test('a problem that shows only with the address of the connection is refused too', async () => {
  const name = next()
  const definitionOf = JSON.parse(definition(name))
  definitionOf.destinations[0].request.path = '/{nothing}'
  const answer = await put(`${name}.flow.yaml`, JSON.stringify(definitionOf), null)
  expect(answer.statusCode).toBe(400)
})

test.each([
  ['../out.flow.yaml'],
  ['a/b.flow.yaml'],
  ['.hidden.flow.yaml'],
  ['Upper.flow.yaml'],
  ['plain.yaml'],
  ['.versions/x.flow.yaml'],
  ['/etc/passwd'],
  ['a.flow.yaml.bak'],
  ['..\\out.flow.yaml'],
])('T53: the name %s reaches no file', async (file) => {
  const before = await readdir(flows.flowsDir, { recursive: true })
  expect((await put(file, definition(next()), null)).statusCode).toBe(400)
  const url = `/flow-files/${encodeURIComponent(file)}`
  expect((await flows.call('GET', url)).statusCode).toBe(404)
  expect((await flows.call('GET', `${url}/versions/x`)).statusCode).toBe(404)
  expect(await readdir(flows.flowsDir, { recursive: true })).toEqual(before)
})

test('no version name leads out of the folder of versions', { tags: ['long'] }, async () => {
  const { name, file, hash } = await saved()
  await put(file, definition(name, { description: 'second' }), hash)
  await writeFile(join(flows.flowsDir, `${file}.x.bak`), 'secret')
  for (const version of ['..%2Fx', `..%2F${file}.x`, 'x', '20261127T010203123Z%00']) {
    const answer = await flows.call('GET', `/flow-files/${file}/versions/${version}`)
    expect([version, [400, 404].includes(answer.statusCode)]).toEqual([version, true])
  }
  await rm(join(flows.flowsDir, `${file}.x.bak`))
})

test('T53: a link is read inside the folder only, and never written', async () => {
  const { file, hash, name } = await saved()
  await symlink(join(flows.flowsDir, file), join(flows.flowsDir, 'inside.flow.yaml'))
  await symlink('/etc/hostname', join(flows.flowsDir, 'outside.flow.yaml'))
  const inside = await read('inside.flow.yaml')
  expect(inside).toMatchObject({ hash, read_only: expect.stringContaining('link') })
  expect((await flows.call('GET', '/flow-files/outside.flow.yaml')).statusCode).toBe(403)
  for (const link of ['inside.flow.yaml', 'outside.flow.yaml']) {
    await rm(join(flows.flowsDir, file))
    expect((await put(link, definition(name), hash)).statusCode).toBe(403)
    await flows.write(file, definition(name))
  }
  await rm(join(flows.flowsDir, 'inside.flow.yaml'))
  await rm(join(flows.flowsDir, 'outside.flow.yaml'))
})

test('versions are not written through a link in place of their folder', async () => {
  const dir = join(flows.flowsDir, 'linked')
  const elsewhere = join(flows.flowsDir, 'elsewhere')
  await mkdir(dir)
  await mkdir(elsewhere)
  await symlink(elsewhere, join(dir, '.versions'))
  const files = createFlowFiles(dir, service.clock.now)
  const { hash } = await files.save('a.flow.yaml', Buffer.from('one'), null)
  await expect(files.save('a.flow.yaml', Buffer.from('two'), hash)).rejects.toMatchObject({
    code: 'FORBIDDEN',
  })
  expect(await readdir(elsewhere)).toEqual([])
  expect(await readFile(join(dir, 'a.flow.yaml'), 'utf8')).toBe('one')
})

test('a folder without write permission is reported', () => {
  expect(createFlowFiles('/proc/flows', service.clock.now).whyReadOnly()).toContain('/proc')
})

test('a text that is too long is refused', async () => {
  const file = `${next()}.flow.yaml`
  const long = `# ${'ñ'.repeat(70_000)}`
  expect((await put(file, long, null)).statusCode).toBe(400)
  expect((await put(file, 'x'.repeat(300_000), null)).statusCode).toBe(413)
  expect((await dryRun(long)).statusCode).toBe(400)
})

test('a template makes a definition for the editor', async () => {
  const url = '/flow-templates/woocommerce?name=web&from=sql-table'
  const made = (await flows.call('GET', url)).json()
  expect(made.text).toMatch(/^version: 1\nname: web\n/)
  expect(made.problems).toMatchObject([
    { key: 'source.connection', why: { code: 'CONNECTION_UNKNOWN', data: { name: 'erp-base' } } },
  ])
  expect((await flows.call('GET', '/flow-templates/nothing')).statusCode).toBe(400)
  expect((await flows.call('GET', '/flow-templates/shopify?name=..')).statusCode).toBe(400)
})

test('T53: a dry run shows the first ten records, what becomes of them, and no secret', async () => {
  const name = next()
  await flows.write(
    `${name}.json`,
    Array.from({ length: 25 }, (_, index) => ({
      id: index === 1 ? null : `A-${index}`,
      price: index,
      // A source may repeat what it was given.
      note: index === 0 ? `for ${token}` : 'plain',
    })),
  )
  const text = definition(name, {
    item: { key: 'id', filter: 'price != 2' },
    destinations: [
      {
        name: 'web',
        type: 'http',
        connection: 'signed',
        map: '{ "sku": id, "price": price }',
        filter: 'price != 3',
        find: { path: '/find?sku={pk}', remember: { id: 'id' } },
        create: { path: '/products' },
        request: { method: 'PUT', path: '/products/{remembered.id}' },
        remember: { id: 'id' },
      },
      { name: 'list', type: 'file', connection: 'files', path: 'list.ndjson' },
    ],
  })
  const before = target.received.length
  const answer = await dryRun(text)
  expect(answer.statusCode).toBe(200)
  const run = answer.json()
  expect(run).toMatchObject({ name, rows_read: 25, cut_off: 'items' })
  expect(run.records).toHaveLength(10)
  const [first, second, third, fourth] = run.records
  expect(first).toMatchObject({
    record: { id: 'A-0', note: 'for [masked]' },
    pk: 'A-0',
    problem: null,
    skipped: null,
  })
  expect(first.destinations[0]).toEqual({
    name: 'web',
    type: 'http',
    body: { sku: 'A-0', price: 0 },
    skipped: null,
    refused: null,
    requests: [
      {
        purpose: 'find',
        method: 'GET',
        // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of a flow file
        target: '${env:SHOP_URL}/find?sku=A-0',
        headers: expect.objectContaining({ 'x-signature': '[sign]' }),
        body: null,
      },
      {
        purpose: 'create',
        method: 'POST',
        // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of a flow file
        target: '${env:SHOP_URL}/products',
        headers: expect.objectContaining({
          // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of a flow file
          authorization: 'Bearer ${env:SHOP_TOKEN}',
          'x-signature': '[sign]',
          'idempotency-key': '{jobKey}',
        }),
        body: '{"sku":"A-0","price":0}',
      },
    ],
  })
  expect(first.destinations[1].requests).toMatchObject([
    { purpose: 'line', target: join(flows.dir, 'list.ndjson') },
  ])
  expect(second).toMatchObject({ pk: null, problem: 'the key field "id" is null or missing' })
  expect(third).toMatchObject({ pk: 'A-2', skipped: expect.stringContaining('item.filter') })
  expect(fourth.destinations[0]).toMatchObject({ skipped: expect.any(String), requests: [] })
  expect(answer.body).not.toContain(token)
  expect(answer.body).not.toContain(target.url)
  expect(target.received).toHaveLength(before)
  expect(await readdir(flows.flowsDir)).not.toContain(`${name}.flow.yaml`)
  expect(flows.logLines.join('')).not.toContain(token)
})

test('a dry run shows a batch as the request with the item', { tags: ['long'] }, async () => {
  const { text } = (
    await flows.call('GET', '/flow-templates/woocommerce?name=shop&from=csv-drop')
  ).json()
  await flows.write('articulos.csv', 'codigo;descripcion;precio;stock\r\nA-17;Yerba;12,50;3\r\n')
  const [record] = (await dryRun(text.replace('settle: 5s', 'settle: 0s'))).json().records
  expect(record.destinations[0].requests).toMatchObject([
    {
      purpose: 'batch',
      method: 'POST',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of a flow file
      target: '${env:SHOP_URL}/wp-json/wc/v3/products/batch',
      body: expect.stringContaining('"create":[{"sku":"A-17"'),
    },
  ])
})

test('a dry run shows the failure of a mapping with its item', async () => {
  const name = next()
  await flows.write(`${name}.json`, [{ id: '1' }])
  const text = definition(name).replace(
    '"type": "http",',
    '"type": "http", "map": "$number(id & \\"x\\")",',
  )
  const { records } = (await dryRun(text)).json()
  expect(records[0].destinations[0]).toMatchObject({
    refused: expect.stringContaining('map failed'),
  })
})

test('a dry run warns of fields that no record of a table has, as a poll would refuse them', async () => {
  const name = next()
  await flows.write(`${name}.csv`, 'cod,detalle\r\nA-17,Yerba\r\n')
  const text = definition(name, {
    item: { key: 'cod' },
    source: { type: 'file', connection: 'files', path: `${name}.csv`, format: 'csv', settle: '0s' },
    destinations: [
      { name: 'web', type: 'http', connection: 'shop', map: '{ "sku": codigo }', request: {} },
    ],
  })
  const { warnings, records } = (await dryRun(text)).json()
  expect(warnings).toEqual([
    expect.stringContaining(
      'these fields are in none of the records: "codigo" (destinations[0].map). The records have: cod, detalle',
    ),
  ])
  expect(records).toHaveLength(1)
})

test('a dry run of an invalid definition or an unreadable source has the reason', async () => {
  const wrong = await dryRun('version: 1\n')
  expect([wrong.statusCode, wrong.json().error]).toEqual([
    400,
    expect.stringMatching(/^The definition is wrong at line 1: /),
  ])
  const unreadable = await dryRun(definition('nobody-wrote-this'))
  expect(unreadable.statusCode).toBe(502)
  expect(unreadable.json().error).toContain('nobody-wrote-this.json')
})

test('saves and dry runs are recorded with their author', { tags: ['long'] }, async () => {
  const { name, file, hash } = await saved()
  await dryRun(definition(name))
  await put(file, definition(name, { description: 'later' }), hash)
  const { activity } = (await flows.call('GET', `/flows/activity?flow=${name}`)).json()
  expect(activity.map(({ action }: { action: string }) => action)).toEqual([
    'file changed',
    'dry run',
    'paused',
    'file created',
  ])
  expect(activity[0]).toMatchObject({
    actor: '127.0.0.1',
    detail: expect.stringContaining(`${file}, sha256 `),
  })
  const { logs } = (await asAdmin(service, { url: '/admin/activity?limit=10' })).json()
  expect(logs.map(({ action }: { action: string }) => action)).toEqual(
    expect.arrayContaining(['flow.file_changed', 'flow.dry_run', 'flow.file_created']),
  )
})

test.each([
  ['FLOWS_WORKBENCH is false', { FLOWS_WORKBENCH: 'false' }, 'off', 'FLOWS_WORKBENCH'],
  ['nobody has signed in, and no token is set', {}, 'anonymous', 'SYNC_TOKEN'],
  [
    'anybody may call',
    { SYNC_AUTH: 'none', SYNC_TOKEN: 's'.repeat(32), FLOWS_WORKBENCH: 'true' },
    'open_to_all',
    'SYNC_AUTH',
  ],
])('T53: where %s files can be read and nothing else', async (_, env, code, named) => {
  const files = {
    'a.flow.yaml': definition('a'),
    'connections.yaml': JSON.stringify(connections()),
  }
  const closed = await startTestFlows({ service, env, files })
  const list = (await closed.call('GET', '/flow-files')).json()
  expect([list.read_only_code, list.read_only]).toEqual([code, expect.stringContaining(named)])
  const { text, hash, ...file } = (await closed.call('GET', '/flow-files/a.flow.yaml')).json()
  expect([file.read_only_code, file.read_only]).toEqual([code, list.read_only])
  const body = { text, base: hash }
  expect((await closed.call('PUT', '/flow-files/a.flow.yaml', { body })).statusCode).toBe(403)
  const run = await closed.call('POST', '/flow-definitions/dry-run', { body: { text } })
  expect(run.statusCode).toBe(403)
  await closed.stop()
})

test('a caller with the token can save, and so can a flow operator who has signed in', {
  tags: ['long'],
}, async () => {
  const syncToken = 's'.repeat(32)
  const asked = await startTestFlows({
    service,
    env: { SYNC_TOKEN: syncToken },
    files: { 'a.flow.yaml': definition('a'), 'connections.yaml': JSON.stringify(connections()) },
  })
  const { cookie } = await joinAs(service, { name: 'bench', role: 'flow_operator' })
  for (const headers of [{ 'x-api-token': syncToken }, { cookie, ...ownPage }]) {
    const options = { headers }
    const { text, hash, ...file } = (
      await asked.call('GET', '/flow-files/a.flow.yaml', options)
    ).json()
    expect([file.read_only, file.read_only_code]).toEqual([null, null])
    const body = { text: `${text} `, base: hash }
    const saved = await asked.call('PUT', '/flow-files/a.flow.yaml', { body, headers })
    expect(saved.statusCode).toBe(200)
  }
  const { activity } = (
    await asked.call('GET', '/flows/activity?flow=a', {
      headers: { 'x-api-token': syncToken },
    })
  ).json()
  const who = activity
    .filter(({ action }: { action: string }) => action === 'file changed')
    .map(({ actor }: { actor: string }) => actor)
  expect(who).toEqual(['bench', '127.0.0.1'])
  await asked.stop()
})

test('problems of a definition are in the reader’s language, and also in English', async () => {
  const headers = { 'accept-language': 'es' }
  const { problems } = (
    await flows.call('POST', '/flow-definitions/check', {
      body: { text: 'version: 1\nname: a\npolInterval: 60s\n' },
      headers,
    })
  ).json()
  const misspelt = problems.find(({ key }: { key: string }) => key === 'polInterval')
  expect(misspelt).toMatchObject({
    message: 'is not a known key',
    hint: 'did you mean pollInterval?',
    why: {
      code: 'UNKNOWN_KEY',
      data: { meant: 'pollInterval' },
      message: 'no es una clave conocida',
      hint: '¿quisiste decir pollInterval?',
    },
  })
})
