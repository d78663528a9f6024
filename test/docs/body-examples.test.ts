import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { typeCharge, watchAfter } from '../closings/shop-day.ts'
import { blocksOf } from '../support/document-blocks.ts'
import { startTestFlows, type TestFlows } from '../support/flows.ts'
import { codeAt, codeOf, cookieOf, ownPage } from '../support/people.ts'
import { adminToken } from '../support/service.ts'
import { act, asAdmin, call, charge, openShop, payByCard, type Till } from '../support/till.ts'

/**
 * Sends each example body of /docs to a service with what the tutorials create: the shop `acme`, its store SUC-1, its box CAJA-1
 * and the flow `articulos`. The test fills in what a reader must, such as the id of an order.
 */
type Body = Record<string, unknown>
type Operation = {
  operationId: string
  summary: string
  description?: string
  requestBody?: { content: Record<string, { schema: Schema }> }
}
type Schema = { $ref?: string; example?: Body; examples?: Body[] }
type Document = {
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Schema> }
}
type Example = { method: string; path: string; operation: Operation; body: Body | undefined }

let flows: TestFlows
let till: Till & { terminalId: string }
const examples = new Map<string, Example>()

const root = fileURLToPath(new URL('../..', import.meta.url))
/** Paths of the tutorial are beside the folder of the service; here in a folder of the test. */
const inFolder = (text: string) =>
  text.replaceAll('./flows/', `${flows.flowsDir}/`).replaceAll('../erp-archivos', flows.dir)

function collect(name: string, { paths, components }: Document): void {
  for (const [path, operations] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const schema = operation.requestBody?.content['application/json']?.schema
      if (!schema) continue
      const whole = schema.$ref ? components.schemas[schema.$ref.split('/').at(-1) ?? ''] : schema
      const body = whole?.example ?? whole?.examples?.[0]
      examples.set(`${name} ${operation.operationId}`, { method, path, operation, body })
    }
  }
}

beforeAll(async () => {
  flows = await startTestFlows()
  const service = flows.service
  till = await openShop(service, 'acme')
  const articles = join(flows.dir, 'articulos.csv')
  writeFileSync(articles, 'codigo;descripcion;precio\nA-1;Yerba;5.250,00\nA-2;Cafe;8.499,90\n')
  const [connections, tutorial] = blocksOf(root, 'docs/tutorials/first-flow.md').filter(
    ({ file }) => file,
  )
  await flows.write('connections.yaml', inFolder(String(connections?.text)))
  const target = inFolder(String(tutorial?.file))
  mkdirSync(dirname(target), { recursive: true })
  writeFileSync(target, inFolder(String(tutorial?.text)))
  expect((await flows.call('POST', '/flows/reload')).statusCode).toBe(200)
  collect('payment', (await service.app.inject('/openapi.json')).json())
  collect('control', (await flows.call('GET', '/openapi.json')).json())
}, 120_000)
afterAll(() => {
  vi.restoreAllMocks()
  return flows?.stop()
})

/** What a reader fills in: parameters of the path, and the fields of the body that name something that exists. */
type Filled = {
  params?: Record<string, string>
  fields?: Body
  headers?: Record<string, string>
  /** The expected status of the answer, when it is not a success. */
  status?: number
}

async function send(id: string, { params = {}, fields = {}, headers = {}, status }: Filled = {}) {
  const example = examples.get(id)
  if (!example?.body) throw new Error(`${id} has no example`)
  sent.add(id)
  const body = { ...example.body, ...fields }
  if (typeof body.text === 'string') body.text = inFolder(body.text)
  // The test fills in only fields that the example has.
  expect(Object.keys(body), id).toEqual(Object.keys(example.body))
  const url = example.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(params[name])),
  )
  const method = example.method.toUpperCase() as 'POST'
  const answer = id.startsWith('control')
    ? await flows.call(method, url, { body, headers })
    : await call(flows.service, {
        method,
        url,
        body,
        headers,
        ...(Object.keys(headers).length === 0 && { token: adminToken }),
      })
  if (status === undefined) {
    expect([id, answer.statusCode < 300, answer.body]).toEqual([id, true, answer.body])
  } else expect([id, answer.statusCode, answer.body]).toEqual([id, status, answer.body])
  return answer
}

const sent = new Set<string>()
const asTill = () => ({ 'x-api-token': till.key })

async function paidOrder(reference: string): Promise<string> {
  const { order_id: orderId } = (await charge(flows.service, till, { reference })).json()
  await act(flows.service, orderId, payByCard)
  await call(flows.service, { url: `/orders/${orderId}`, token: till.key })
  return orderId
}

async function orphan(): Promise<string> {
  await typeCharge(flows.service, till)
  await watchAfter(flows.service, 5 * 60_000)
  const { orphans } = (
    await call(flows.service, { url: '/orphans?state=open', token: till.key })
  ).json()
  return orphans[0].id
}

/** Orders, refunds and decisions of a person. */
async function sendOrders(): Promise<void> {
  await paidOrder('0001-00004711')
  const made = await send('payment createOrder', { headers: asTill() })
  expect(made.json()).toMatchObject({ outcome: 'unknown', retry_safe: false })
  const order = { order_id: made.json().order_id }
  await send('payment cancelOrder', { headers: asTill(), fields: order })
  const paid = await paidOrder('0001-00004721')
  await send('payment refundOrder', { headers: asTill(), fields: { order_id: paid } })
  await send('payment createConsumer', { headers: asTill(), status: 201 })
  const { next } = (
    await call(flows.service, { url: '/events/feed?consumer=erp', token: till.key })
  ).json()
  const params = { name: 'erp' }
  await send('payment commitConsumer', { headers: asTill(), params, fields: { after: next } })
  await send('payment seekConsumer', { headers: asTill(), params })
  const endpoint = await send('payment createEndpoint', { headers: asTill(), status: 201 })
  const ofEndpoint = { headers: asTill(), params: { id: endpoint.json().id } }
  await send('payment changeEndpoint', ofEndpoint)
  await send('payment rotateEndpointSecret', ofEndpoint)
  await send('payment replayEvents', ofEndpoint)
  // No order is in doubt after the tutorial, so this is refused.
  const settled = await send('payment settleOrder', {
    headers: asTill(),
    params: { orderId: paid },
    status: 409,
  })
  expect(settled.json()).toMatchObject({ code: 'CONFLICT' })
  for (const id of ['payment simulateOrder', 'payment simulateOrderByOtherPath']) {
    const { order_id: waiting } = (
      await charge(flows.service, till, { reference: `sim-${id.length}` })
    ).json()
    await send(id, { params: { idempotencyKey: waiting } })
  }
  for (const how of ['adopt', 'refund', 'dismiss']) {
    const orphanId = await orphan()
    await send(`payment ${how}Orphan`, { headers: asTill(), params: { orphanId } })
  }
}

/** Stores, terminals, closings and settlements. */
async function sendStores(): Promise<void> {
  await send('payment createStore', { headers: asTill() })
  await send('payment addPos', { headers: asTill(), params: { storeExternalId: 'SUC-1' } })
  await send('payment setStoreTimeZone', {
    headers: asTill(),
    params: { storeExternalId: 'SUC-1' },
  })
  await send('payment setOperatingMode', { headers: asTill() })
  await send('payment freeTerminal', { params: { terminalId: till.terminalId } })
  const { id: closingId } = (await send('payment openClosing', { headers: asTill() })).json()
  await send('payment countClosing', { headers: asTill(), params: { closingId } })
  await watchAfter(flows.service, 61_000)
  const signed = await call(flows.service, {
    method: 'POST',
    url: `/closings/${closingId}/sign`,
    token: till.key,
  })
  expect(signed.statusCode, signed.body).toBe(200)
  await send('payment amendClosing', { headers: asTill(), params: { closingId } })
  await send('payment setChargeClass')
  await send('payment handInSettlementFile', { headers: asTill() })
  await send('payment fetchSettlements', { headers: asTill() })
}

/** Keys, invitations and people. */
async function sendAccess(): Promise<void> {
  const { service } = flows
  await send('payment createApiKey')
  const { id: key_id } = (
    await asAdmin(service, { url: '/api-keys', body: { client: 'acme' } })
  ).json()
  await send('payment revokeApiKeys', { fields: { key_id } })
  await send('payment signIn', { headers: ownPage, fields: { token: till.key } })
  const invited = await send('payment createInvitation')
  const invitation = new URL(invited.json().url).searchParams.get('invitation')
  await send('payment acceptInvitation', { headers: ownPage, fields: { invitation } })
  const person = await send('payment invitePerson')
  const begun = await send('payment acceptPersonInvitation', {
    headers: ownPage,
    fields: { code: codeOf(person) },
  })
  await send('payment changePerson', { params: { personId: person.json().person.id } })
  const { password } = examples.get('payment acceptPersonInvitation')?.body ?? {}
  const own = { cookie: cookieOf(begun), ...ownPage }
  await send('payment changePassword', { headers: own, fields: { current: password } })
  const { secret } = (
    await call(service, { method: 'POST', url: '/account/totp', headers: own })
  ).json()
  const code = codeAt(secret, service.clock.now())
  await send('payment confirmTotp', { headers: own, fields: { code } })
  const changed = examples.get('payment changePassword')?.body?.password
  await send('payment removeTotp', { headers: own, fields: { password: changed } })
}

/** The flow control API. */
async function sendControl(): Promise<void> {
  const { service } = flows
  const invited = await asAdmin(service, {
    url: '/people',
    body: { name: 'operador', role: 'flow_operator' },
  })
  const password = 'canary-long enough to be one'
  await call(service, {
    url: '/account/invitation',
    headers: ownPage,
    body: { code: codeOf(invited), password },
  })
  // Without an authenticator app no code is required.
  const signedIn = await send('control signIn', {
    headers: ownPage,
    fields: { name: 'operador', password },
  })
  const headers = { cookie: cookieOf(signedIn), ...ownPage }
  const params = { name: 'articulos' }
  // A poll reads the file after it was unchanged for some seconds, by both clocks.
  service.clock.advance(10_000)
  const monotonicMs = performance.now.bind(performance)
  vi.spyOn(performance, 'now').mockImplementation(() => monotonicMs() + 10_000)
  await flows.call('POST', '/sync/articulos')
  await send('control pauseFlow', { params })
  await send('control pauseAllFlows')
  await send('control stopSending')
  await send('control startSending')
  await send('control tryDestinations', { params })
  await send('control retryFailures', { params })
  // Nothing is asked after the tutorial, so this is refused.
  await send('control answerQuestion', { params, status: 409 })
  expect((await send('control checkDefinition', { headers })).json()).toMatchObject({
    problems: [],
  })
  await send('control dryRunDefinition', { headers })
  await send('control saveFlowFile', { headers, params: { file: 'precios.flow.yaml' } })
}

test('every body has an example, and each example works', {
  tags: ['long'],
}, async () => {
  const without = [...examples].filter(([, { body }]) => body === undefined).map(([id]) => id)
  expect(without).toEqual([])
  await sendOrders()
  await sendStores()
  await sendAccess()
  await sendControl()
  expect([...sent].toSorted()).toEqual([...examples.keys()].toSorted())
})

/** Operations whose effect no later request reverses. */
const permanent = [
  ...['cancelOrder', 'refundOrder', 'settleOrder', 'adoptOrphan', 'refundOrphan', 'dismissOrphan'],
  ...['signClosing', 'amendClosing', 'handInSettlementFile', 'deleteStore', 'deletePos'],
  ...['revokeApiKeys', 'revokePerson', 'logout', 'resetFlow', 'resyncFlow'],
  ...['answerQuestion', 'approveConnection'],
]

test('operations that cannot be undone say so', async () => {
  const documents = [
    (await flows.service.app.inject('/openapi.json')).json() as Document,
    (await flows.call('GET', '/openapi.json')).json() as Document,
  ]
  const says = documents
    .flatMap(({ paths }) => Object.values(paths).flatMap((one) => Object.values(one)))
    .filter(({ description = '' }) => description.startsWith('This cannot be undone.'))
    .map(({ operationId }) => operationId)
  expect(says.toSorted()).toEqual(permanent.toSorted())
})
