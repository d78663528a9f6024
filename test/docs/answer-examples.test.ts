import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import controlAnswers from '../../src/app/control-answers.json' with { type: 'json' }
import paymentAnswers from '../../src/app/payment-answers.json' with { type: 'json' }
import { lintOpenApi } from '../http/lint-openapi.ts'
import {
  connectedFlow,
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
  testConnections,
} from '../support/flows.ts'
import { deliver } from '../support/money.ts'
import { codeOf, cookieOf, ownPage } from '../support/people.ts'
import { adminToken } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  charge,
  openShop,
  payByCard,
  readOrder,
  type Shop,
} from '../support/till.ts'

/** Each example of an answer is compared with the answer of a running service: the same fields, with values of the same types. */
type Json = { [field: string]: unknown }
type Operation = {
  operationId: string
  responses: Record<
    string,
    { content?: { 'application/json'?: { schema: Json; example?: unknown; examples?: Json } } }
  >
}
type Document = {
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Json> }
}

let flows: TestFlows
let target: TestTarget
let shop: Shop
const documents: Record<string, Document> = {}

beforeEach(async () => {
  target = await startTarget()
  flows = await startTestFlows({ env: { FLOWS_WORKBENCH: 'true' } })
  shop = await openShop(flows.service, 'acme')
  for (const [name, { app }] of Object.entries({ payment: flows.service, control: flows })) {
    documents[name] = (
      await app.inject({ url: '/openapi.json', headers: { host: '127.0.0.1:8080' } })
    ).json()
  }
}, 120_000)
afterEach(async () => {
  await flows?.stop()
  await target?.close()
})

/** Every JSON answer, as `operation status`, with its example. Errors of a code have theirs in published-errors.test.ts. */
function answersOf(name: string): Map<string, unknown> {
  const { paths, components } = documents[name] as Document
  const operations = Object.values(paths).flatMap((path) => Object.values(path))
  return new Map(
    operations.flatMap(({ operationId, responses }) =>
      Object.entries(responses).flatMap(([status, { content }]) => {
        const json = content?.['application/json']
        if (!json || json.examples) return []
        const named =
          String(json.schema.$ref ?? '')
            .split('/')
            .at(-1) ?? ''
        const schema = components.schemas[named] ?? json.schema
        const [first] = (schema.examples as unknown[] | undefined) ?? []
        return [[`${operationId} ${status}`, json.example ?? schema.example ?? first] as const]
      }),
    ),
  )
}

test.each(['payment', 'control'])('every JSON answer of the %s API has an example', (name) => {
  const without = [...answersOf(name)].filter(([, example]) => example === undefined)
  expect(without.map(([id]) => id)).toEqual([])
})

test('examples and schemas of the flow control API agree', {
  tags: ['long'],
}, async () => {
  expect(await lintOpenApi(documents.control)).toEqual([])
})

/** Names of fields and types of values; a list is its first entry. Null and an empty list are like any value. */
function differences(example: unknown, real: unknown, path: string): string[] {
  if (example === null || real === null) return []
  if (Array.isArray(example) && Array.isArray(real)) {
    return example.length && real.length ? differences(example[0], real[0], `${path}[]`) : []
  }
  if (typeof example !== typeof real) return [`${path}: ${typeof example}, ${typeof real}`]
  if (typeof example !== 'object') return []
  const [one, other] = [example as Json, real as Json]
  return [...new Set([...Object.keys(one), ...Object.keys(other)])].flatMap((key) =>
    key in one && key in other
      ? differences(one[key], other[key], `${path}.${key}`)
      : [`${path}.${key}: only in ${key in one ? 'the example' : 'the answer'}`],
  )
}

/** Requests of the flow control API that a source or a question refuses. */
async function askWhatFails(
  ask: (
    operationId: string,
    method: Method,
    url: string,
    body?: unknown,
  ) => Promise<{ statusCode: number }>,
): Promise<void> {
  const { db } = flows.service.database
  // As if polls began all the time. A real one may take the new price first, so each try has another.
  let price = 0
  const syncMeanwhile = async () => {
    price += 1
    await flows.write('articulos.json', [{ id: 'A-1', precio: `${price},00` }])
    await db.updateTable('flow_state').set({ read_number: 1_000_000 }).execute()
    return (await ask('syncItem', 'POST', '/sync/articulos/A-1')).statusCode
  }
  await expect.poll(syncMeanwhile).toBe(409)
  await flows.write('roto.json', [])
  await flows.write('roto.flow.yaml', jsonFlow('roto', target.url))
  await flows.call('POST', '/flows/reload')
  await rm(join(flows.dir, 'roto.json'))
  for (const [operationId, url] of [
    ['syncFlow', '/sync/roto?force=true'],
    ['syncItem', '/sync/roto/A-1'],
    ['resyncFlow', '/resync/roto?force=true'],
    ['resyncItem', '/resync/roto/A-1?force=true'],
    ['dryRunFlowFile', '/flow-files/roto.flow.yaml/dry-run'],
  ] as const)
    await ask(operationId, 'POST', url, {})
  const text = JSON.stringify(connectedFlow('roto'))
  await ask('dryRunDefinition', 'POST', '/flow-definitions/dry-run', { text })
}

/** Examples that show some fields of a long answer. */
const isCut = new Set(['readFlowSchema 200'])
const partOf = (real: Json, example: Json) =>
  Object.fromEntries(Object.entries(real).filter(([key]) => key in example))

const compared = new Set<string>()
type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

function compare(
  name: string,
  operationId: string,
  answer: { statusCode: number; body: string; json(): unknown },
  found: string[],
) {
  const id = `${operationId} ${answer.statusCode}`
  const example = answersOf(name).get(id)
  if (example === undefined) found.push(`${id}: ${answer.body}`)
  compared.add(id)
  const real = answer.json() as Json
  found.push(...differences(example, isCut.has(id) ? partOf(real, example as Json) : real, id))
}

test('examples of the payment API are like the answers of a running service', {
  tags: ['long'],
}, async () => {
  const { service } = flows
  const { order_id: orderId } = (await charge(service, shop, { reference: '0001-00004711' })).json()
  await act(service, orderId, payByCard)
  await readOrder(service, shop, orderId)
  const row = await service.database.db
    .selectFrom('orders')
    .select('mp_order_id')
    .where('id', '=', orderId)
    .executeTakeFirstOrThrow()
  await deliver(service, { dataId: String(row.mp_order_id) })
  const at = (ms: number) => new Date(service.clock.now().getTime() + ms).toISOString()
  const span = `from=${at(-86_400_000)}&to=${at(60_000)}`
  const found: string[] = []
  const get = async (operationId: string, url: string, asClient = true) =>
    compare(
      'payment',
      operationId,
      await call(service, { url, token: asClient ? shop.key : adminToken }),
      found,
    )
  await get('listOrders', '/orders')
  await get('readTimeline', `/orders/${orderId}/timeline`)
  await get('readOverview', `/overview?${span}`, false)
  await get('readSales', `/sales?${span}`)
  await get('readStoreSales', `/sales/SUC-1?${span}`)
  await get('readSalesOverTime', `/sales-over-time?${span}`)
  await get('listStores', '/stores')
  await get('listTerminals', '/terminals')
  await get('listActivity', '/admin/activity', false)
  await get('listApiKeys', '/api-keys', false)
  await get('listClients', '/admin/clients', false)
  await get('listWebhooks', '/admin/webhooks/logs', false)
  await get('listAllOrders', '/admin/orders', false)
  const post = (url: string, body?: object) =>
    call(service, { method: 'POST', url, token: adminToken, ...(body && { body }) })
  const { logs } = (await asAdmin(service, { url: '/admin/webhooks/logs' })).json()
  compare('payment', 'replayWebhook', await post(`/admin/webhooks/${logs[0].id}/replay`), found)
  const invited = await post('/people', { name: 'ana', role: 'viewer', client: 'acme' })
  compare('payment', 'invitePerson', invited, found)
  const begun = await call(service, {
    url: '/account/invitation',
    headers: ownPage,
    body: { code: codeOf(invited), password: 'canary-long enough to be one' },
  })
  compare(
    'payment',
    'readAccount',
    await call(service, { url: '/account', headers: { cookie: cookieOf(begun) } }),
    found,
  )
  await get('listPeople', '/people', false)
  const personId = invited.json().person.id
  await get('listSessionsOfPerson', `/people/${personId}/sessions`, false)
  compare('payment', 'resetPerson', await post(`/people/${personId}/reset`), found)
  expect(found).toEqual([])
  expect(Object.keys(paymentAnswers).filter((id) => !compared.has(id))).toEqual([])
})

test('examples of the flow control API are like the answers of a running service', {
  tags: ['long'],
}, async () => {
  const found: string[] = []
  const ask = async (
    operationId: string,
    method: Method,
    url: string,
    body?: unknown,
    headers?: Record<string, string>,
  ) => {
    const answer = await flows.call(method, url, {
      ...(body !== undefined && { body }),
      ...(headers && { headers }),
    })
    compare('control', operationId, answer, found)
    return answer
  }
  await flows.write('articulos.json', [
    { id: 'A-1', precio: '5.250,00' },
    { id: 'A-2', precio: '8.499,90' },
  ])
  const alerts = { onJobFailed: [{ type: 'webhook', url: `${target.url}/hook` }] }
  const flow = jsonFlow('articulos', target.url, { alerts }) as { destinations: object[] }
  await flows.write('articulos.flow.yaml', flow)
  await ask('reloadFlows', 'POST', '/flows/reload')
  target.answer(500)
  await ask('resumeFlow', 'POST', '/flow/articulos/resume')
  await ask('syncFlow', 'POST', '/sync/articulos')
  await flows.ended()
  await ask('listFailures', 'GET', '/flow/articulos/failures')
  await ask('listAllFailures', 'GET', '/flows/failures')
  await ask('listErrors', 'GET', '/errors')
  await ask('readItem', 'GET', '/flow/articulos/items/A-1')
  await ask('findItem', 'GET', '/flows/items/A-1')
  await ask('readItemRequests', 'GET', '/flow/articulos/items/A-1/requests')
  target.answer(200)
  await ask('retryFailures', 'POST', '/flow/articulos/retry', {})
  await flows.ended()
  await ask('syncItem', 'POST', '/sync/articulos/A-1')
  await ask('resyncItem', 'POST', '/resync/articulos/A-1')
  await ask('resyncFlow', 'POST', '/resync/articulos')
  await flows.ended()
  await ask('stopSending', 'POST', '/sending/stop', { reason: 'mantenimiento' })
  await ask('readSending', 'GET', '/sending')
  await flows.call('POST', '/resync/articulos')
  await ask('listWaiting', 'GET', '/flow/articulos/waiting')
  await ask('listAllDelayed', 'GET', '/flows/delayed')
  await ask('listSkipped', 'GET', '/flow/articulos/skipped')
  await ask('readStats', 'GET', '/stats')
  await ask('startSending', 'POST', '/sending/start', {})
  await ask('tryDestinations', 'POST', '/flow/articulos/try', {})
  await flows.ended()
  await ask('readDestination', 'GET', '/destinations/web')
  await ask('listRuns', 'GET', '/flow/articulos/runs')
  // Another body of each item, which is not sent unasked.
  const destinations = flow.destinations.map((one) => ({ ...one, map: '{ "codigo": id }' }))
  await flows.write('articulos.flow.yaml', { ...flow, destinations })
  await flows.call('POST', '/flows/reload')
  await flows.call('POST', '/sync/articulos')
  const readQuestion = async () => (await flows.call('GET', '/flow/articulos/question')).json()
  await expect.poll(readQuestion).toMatchObject({ state: 'asked' })
  const { number } = (await ask('readQuestion', 'GET', '/flow/articulos/question')).json()
  const answer = { number, answer: 'send' }
  const question = '/flow/articulos/question'
  await ask('answerQuestion', 'POST', question, { ...answer, pks: ['A-1'] })
  await ask('answerQuestion', 'POST', question, answer)
  await ask('answerQuestion', 'POST', question, answer)
  await ask('limitFlow', 'POST', '/flow/articulos/limit/10')
  await ask('listFlows', 'GET', '/flows')
  await ask('readFlowStatus', 'GET', '/flows/status')
  await ask('readMetrics', 'GET', '/metrics')
  await ask('readControlHealth', 'GET', '/health')
  await ask('unlimitFlow', 'DELETE', '/flow/articulos/limit')
  await ask('resetItem', 'DELETE', '/reset/articulos/A-1')
  await ask('resetFlow', 'DELETE', '/reset/articulos')
  await ask('pauseFlow', 'POST', '/flow/articulos/pause', {})
  await ask('pauseAllFlows', 'POST', '/flows/pause', {})
  await ask('resumeAllFlows', 'POST', '/flows/resume')
  await ask('testAlerts', 'POST', '/flow/articulos/test-alerts')
  target.answer(500)
  await ask('testAlerts', 'POST', '/flow/articulos/test-alerts')
  target.answer(200)
  await ask('listFlowActivity', 'GET', '/flows/activity')
  await ask('listFlowFiles', 'GET', '/flow-files')
  await flows.write('connections.yaml', testConnections(flows.dir, target.url))
  await flows.write('precios.json', [{ id: 'A-1', precio: '5.250,00' }])
  const file = 'precios.flow.yaml'
  const text = JSON.stringify(connectedFlow('precios'))
  await flows.call('POST', '/flows/reload')
  const saved = await ask('saveFlowFile', 'PUT', `/flow-files/${file}`, { text, base: null })
  const changed = text.replace('"1h"', '"2h"')
  await flows.call('PUT', `/flow-files/${file}`, {
    body: { text: changed, base: saved.json().hash },
  })
  const read = (await ask('readFlowFile', 'GET', `/flow-files/${file}`)).json()
  await ask(
    'readFlowFileVersion',
    'GET',
    `/flow-files/${file}/versions/${read.versions[0].version}`,
  )
  await ask('readFlowTemplate', 'GET', '/flow-templates/tiendanube')
  await ask('checkDefinition', 'POST', '/flow-definitions/check', { text })
  await ask('dryRunDefinition', 'POST', '/flow-definitions/dry-run', { text })
  await ask('dryRunFlowFile', 'POST', `/flow-files/${file}/dry-run`, {})
  await ask('readFlowSchema', 'GET', '/flow-schema')
  await askWhatFails(ask)
  expect(found).toEqual([])
  expect(Object.keys(controlAnswers).filter((id) => !compared.has(id))).toEqual([])
})
