import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { flowJsonSchema } from '../../src/flows/definition/json-schema.ts'
import { compileMapping } from '../../src/flows/deliver/item-body.ts'
import { StoreBody } from '../../src/flows/destinations/payments-stores.ts'
import { groupRows } from '../../src/flows/item/group-rows.ts'
import { createItemReader } from '../../src/flows/item/item.ts'
import { checkFlows } from '../../src/flows/loading/check-flow-files.ts'
import { loadFlows } from '../../src/flows/loading/load-flow-files.ts'
import { createFlowReader } from '../../src/flows/loading/read-flow.ts'
import { FileSource } from '../../src/flows/sources/file.ts'
import { localFiles } from '../../src/flows/sources/file-local.ts'
import { ReasonError } from '../../src/texts/reason.ts'
import { context, flowText, read } from './definition-support.ts'

const everyKey = `
version: 1
name: stores
description: Sucursales y cajas del ERP -> stores/POS del servicio de pagos
pollInterval: 60s
window: { days: [mon, tue, wed, thu, fri, sat], from: "07:00", to: "22:00", timezone: America/Argentina/Buenos_Aires }
startPaused: false

source:
  type: sql
  driver: mssql
  url: \${env:ERP_DB_URL}
  query: |
    select s.codigo, s.nombre, s.calle, s.numero, s.ciudad, s.provincia, s.lat, s.lng,
           s.fecha_modif, c.codigo as caja, c.nombre as caja_nombre
    from sucursales s join cajas c on c.sucursal = s.codigo
    where s.fecha_modif >= :cursor
    order by s.fecha_modif
  itemQuery: select * from v_sucursal_caja where codigo = :pk
  cursor: { field: fecha_modif, initial: "1970-01-01T00:00:00Z", overlap: 10m }
  fullScanEvery: 24h
  groupBy: { children: { cajas: [caja, caja_nombre] } }
  limits: { timeout: 30s, fetchSize: 1000 }

item:
  key: [codigo]
  hash: { ignore: [fecha_modif], trim: true, emptyAsNull: true, decimals: { lat: 6, lng: 6 } }
  filter: '$exists(lat) and $exists(lng)'
  onDefinitionChange: ask

deletes:
  mode: ignore
  guard: { emptySource: refuse, maxPercent: 10, minItems: 10 }

destinations:
  - name: payments
    type: payments.stores
    client: acme
    map: |
      { "external_id": codigo, "name": nombre,
        "location": { "street_name": calle, "street_number": numero, "city_name": ciudad,
                      "state_name": provincia, "latitude": $number(lat), "longitude": $number(lng) },
        "pos": [cajas.{ "external_id": caja, "name": caja_nombre }] }
    concurrency: 1
    rateLimit: { max: 30, per: 1m }
    retry: { attempts: 8, initial: 5s, factor: 2, max: 10m, jitter: 0.2 }
  - name: web
    type: http
    request:
      method: PUT
      url: https://shop.example.com/api/stores/{pk}
      headers: { authorization: "Bearer \${env:SHOP_TOKEN}", idempotency-key: "{jobKey}" }
    delete: { method: DELETE, url: "https://shop.example.com/api/stores/{pk}", okStatus: [200, 204, 404] }
    timeout: 15s
    concurrency: 4
    retry: { attempts: 5, retryStatus: [408, 425, 429, 500, 502, 503, 504], respectRetryAfter: true }
    breaker: { failures: 20, within: 1m, openFor: 2m }
  - name: dwh
    type: sql
    driver: postgres
    url: \${env:DWH_URL}
    table: erp.stores
    upsertKey: [external_id]
  - name: audit-file
    type: file
    path: ./out/stores-{date}.ndjson
    format: ndjson

queue: { keepCompleted: 7d, keepFailed: 90d }

alerts:
  onJobFailed:
    - { type: slack, url: "\${env:SLACK_URL}" }
    - { type: email, to: [sistemas@acme.example], destinations: [payments], locale: es }
    - { type: webhook, url: https://ops.example.com/hook, secret: "\${env:HOOK_SECRET}", destinations: [payments, web] }
  group: { wait: 30s, interval: 5m, repeat: 4h, resolved: true }
`

const withSettings = createFlowReader({
  ...context,
  env: {
    ERP_DB_URL: 'mssql://sa@erp:1433/erp',
    ERP_TOKEN: 'erp-token',
    SHOP_TOKEN: 'shop-token',
    DWH_URL: 'postgres://dwh@dwh/dwh',
    SLACK_URL: 'https://hooks.slack.com/services/a/b/c',
    HOOK_SECRET: 'whsec_abc',
  },
  mail: { smtpUrl: 'smtp://mail:25', mailFrom: 'flows@acme.example' },
})

const sources = [
  `source: { type: http, url: https://erp.example.com/api/products, headers: { authorization: "Bearer \${env:ERP_TOKEN}" }, items: data.items,
          paging: { type: page, param: page, sizeParam: per_page, size: 200 },
          item: { url: "https://erp.example.com/api/products/{pk}" } }`,
  'source: { type: file, path: /erp/out/articulos*.csv, format: csv, csv: { delimiter: ";", encoding: latin1, decimalComma: true }, settle: 5s, after: archive }',
]

test('a file with every key is a valid flow, with durations in milliseconds', () => {
  const found = read(everyKey, withSettings)
  if ('problems' in found) throw new Error(JSON.stringify(found.problems))
  const { flow } = found.loaded
  expect(flow).toMatchObject({
    name: 'stores',
    pollIntervalMs: 60_000,
    source: { cursor: { field: 'fecha_modif', overlapMs: 600_000 }, fullScanEveryMs: 86_400_000 },
    item: { key: ['codigo'], hash: { ignore: ['fecha_modif'], decimals: { lat: 6, lng: 6 } } },
    queue: { keepCompletedMs: 604_800_000 },
    alerts: { group: { waitMs: 30_000, repeatMs: 14_400_000 } },
  })
  expect(flow.destinations.map(({ name, type }) => `${name} ${type}`)).toEqual([
    'payments payments.stores',
    'web http',
    'dwh sql',
    'audit-file file',
  ])
  expect(flow.destinations[0]?.retry).toEqual({
    attempts: 8,
    initialMs: 5_000,
    factor: 2,
    maxMs: 600_000,
    jitter: 0.2,
  })
  expect(JSON.stringify(flow)).not.toMatch(/shop-token|whsec|hooks\.slack|sa@erp|dwh@/)
})

test.each(sources)('%s', { tags: ['long'] }, (source) => {
  const found = read(flowText({ source }), withSettings)
  expect('problems' in found ? found.problems : []).toEqual([])
})

test('the published schema is current, accepts what the service accepts and has every key', {
  tags: ['long'],
}, async () => {
  const published = JSON.parse(
    await readFile(new URL('../../schema/flow.schema.json', import.meta.url), 'utf8'),
  )
  // When this fails: npm run flows:schema
  expect(published).toEqual(flowJsonSchema())

  const schema = z.fromJSONSchema(published)
  for (const text of [everyKey, ...sources.map((source) => flowText({ source }))]) {
    expect(schema.safeParse(parse(text)).error?.issues).toBeUndefined()
    for (const [word, wrong] of [
      ['pollInterval:', 'pollIntervall:'],
      ['pollInterval: 60s', 'pollInterval: 60 seconds'],
      ['key: [codigo]', 'kei: [codigo]'],
      ['type: file', 'type: fil'],
    ] as const) {
      expect(text).toContain(word)
      expect(schema.safeParse(parse(text.replace(word, wrong))).success).toBe(false)
    }
  }
})

const ofExamples = {
  ...context,
  env: { DEMO_FOLDER: 'examples', DEMO_TARGET_URL: 'http://127.0.0.1:9' },
  connectionsFile: 'examples/connections.yaml',
}

test('the examples are valid flows and name the schema for editors', async () => {
  const { flows, problems } = await loadFlows('examples/flows', ofExamples)
  expect(problems).toEqual([])
  expect(flows.map(({ flow }) => flow.name)).toEqual([
    'articulos',
    'cobros',
    'liquidaciones',
    'sucursales',
  ])
  for (const { file } of flows) {
    const [first] = (await readFile(join('examples/flows', file), 'utf8')).split('\n')
    expect(first).toBe('# yaml-language-server: $schema=../../schema/flow.schema.json')
  }
})

/** What every destination of an example gets, and the items left out. */
async function bodiesOf(name: string) {
  const { flows } = await loadFlows('examples/flows', ofExamples)
  const flow = flows.find((one) => one.flow.name === name)?.flow
  if (flow?.source.type !== 'file') throw new Error(`no flow ${name} with a file`)
  const log = { warn: () => undefined }
  const now = () => new Date(Date.now() + 3_600_000)
  const source = new FileSource(
    flow.source,
    { flow, now, log },
    localFiles(flow.source.path, { inside: undefined, outside: [] }),
  )
  const reader = createItemReader(flow)
  const skipped: string[] = []
  const bodies: Record<string, unknown[]> = {}
  const rows = source.scan({ since: null, signal: new AbortController().signal })
  for await (const batch of groupRows({ item: flow.item, source: flow.source }, rows)) {
    for (const row of batch) {
      const made = await reader.read(row)
      if ('problem' in made) throw new ReasonError(made.problem.why)
      if ('skipped' in made) {
        skipped.push(made.pk)
        continue
      }
      for (const destination of flow.destinations) {
        const body = await compileMapping(destination).apply(made.item.value)
        bodies[destination.name] = [...(bodies[destination.name] ?? []), body]
      }
    }
  }
  await source.close()
  return { bodies, skipped }
}

test('the sample stores become stores with their boxes, also with a single one', async () => {
  const { bodies, skipped } = await bodiesOf('sucursales')
  const stores = z.array(StoreBody).parse(bodies.pagos)
  expect(stores.map(({ name, pos }) => [name, pos?.map((box) => box.name)])).toEqual([
    ['Córdoba Centro', ['Caja 1', 'Caja rápida']],
    ['Rosario Peatonal', ['Caja única']],
  ])
  expect(stores[0]?.location).toMatchObject({
    street_name: 'Av. Vélez Sársfield',
    latitude: -31.4201,
    longitude: -64.1888,
  })
  expect(skipped).toEqual(['S103'])
})

test('the sample articles become products and a list', async () => {
  const { bodies, skipped } = await bodiesOf('articulos')
  expect(bodies.tienda).toHaveLength(5)
  expect(bodies.tienda?.[2]).toEqual({
    sku: 'A-0003',
    titulo: 'Piñata de cumpleaños',
    rubro: 'Cotillón',
    precio: 12300.5,
    iva: 21,
    disponible: true,
  })
  expect(bodies.listado?.[0]).toMatchObject({ codigo: 'A-0001', stock: 120 })
  expect(skipped).toEqual(['A-0006'])
})

const own = { variables: new Set<string>(), files: [], folders: [] }

test('a check lists valid and invalid files by name and shows no secret', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'flows-'))
  try {
    await writeFile(join(dir, 'a.flow.yaml'), flowText())
    await writeFile(join(dir, 'b.flow.yaml'), flowText({ name: 'nam: b' }))
    await writeFile(join(dir, 'c.yaml'), 'x: 1')
    const env = { FLOWS_DIR: dir, SMTP_URL: ' ' }
    const { lines, isGood } = await checkFlows(env, undefined, own)
    expect(lines.map((line) => line.replaceAll(`${dir}/`, ''))).toEqual([
      'a.flow.yaml: ok, flow stores',
      'b.flow.yaml:2:1 nam: is not a known key (did you mean name?)',
      'c.yaml: not read, the name of a flow file ends in .flow.yaml',
      'the browser cannot change parts with an address, path or reference of their own: a.flow.yaml',
      '1 flow ok, 1 problem',
    ])
    expect(isGood).toBe(false)
    await rm(join(dir, 'a.flow.yaml'))
    await rm(join(dir, 'b.flow.yaml'))
    expect((await checkFlows(env, undefined, own)).lines[0]).toBe(`no flow files in ${dir}`)
    const nowhere = join(dir, 'nowhere')
    const missing = { lines: [`there is no folder ${nowhere}`] }
    expect(await checkFlows({ FLOWS_DIR: nowhere }, undefined, own)).toEqual({
      ...missing,
      isGood: true,
    })
    expect(await checkFlows({}, nowhere, own)).toEqual({ ...missing, isGood: false })
  } finally {
    await rm(dir, { recursive: true })
  }
})

test('the command ends with 1 when there are problems', { tags: ['long'] }, async () => {
  const env = {
    ...process.env,
    ...{ DEMO_FOLDER: '/srv/demo', DEMO_TARGET_URL: 'ftp://hunter2' },
    CONNECTIONS_FILE: 'examples/connections.yaml',
  }
  const run = promisify(execFile)(
    process.execPath,
    ['src/commands/check-flows.ts', 'examples/flows'],
    {
      env,
    },
  )
  const failure: { code?: number; stdout?: string; stderr?: string } = await run.catch(
    (error: unknown) => error as object,
  )
  expect(failure).toMatchObject({ code: 1, stderr: '' })
  expect(failure.stdout).toMatch(
    /^examples\/flows\/articulos\.flow\.yaml:21:17 destinations\[0\]\.connection: names the connection tienda, which has a problem/,
  )
  expect(failure.stdout).toContain(
    '\nexamples/connections.yaml:12:10 connections.tienda.url: is not an http or https address',
  )
  expect(failure.stdout).toContain('3 flows ok, 2 problems')
  expect(failure.stdout).not.toContain('hunter2')
})
