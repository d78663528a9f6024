import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { asClientName } from '../../src/domain/client-name.ts'
import { typeCharge } from '../closings/shop-day.ts'
import { fieldsOf, type OpenApiDocument } from '../support/openapi.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  type Call,
  call,
  charge,
  createStore,
  openShop,
  payByCard,
  sandboxCall,
  type Till,
} from '../support/till.ts'

let service: TestService
let victim: Till & { terminalId: string }
let attacker: Till
/** Ids of the victim's records by kind, each with an unused id of the same shape. */
let attacks: Attack[] = []
let ids: Record<
  'order' | 'paid' | 'provider' | 'store' | 'box' | 'closing' | 'fetch' | 'orphan' | 'chargeback',
  { theirs: string; none: string }
>

beforeAll(async () => {
  service = await startTestService()
  victim = await openShop(service, 'victim', '201')
  attacker = await openShop(service, 'attacker', '202')
  await createStore(service, victim, { id: 'V-STORE', boxes: ['V-BOX'] })
  const paid = (await charge(service, victim, { reference: 'T-1' })).json().order_id
  await act(service, paid, payByCard)
  await call(service, { url: `/orders/${paid}`, token: victim.key })
  const open = (await charge(service, victim, { reference: 'T-2' })).json().order_id
  const { mp_order_id } = (
    await call(service, { url: `/orders/${open}`, token: victim.key })
  ).json()
  const fetchId = (
    await call(service, {
      url: '/settlements/fetches',
      token: victim.key,
      body: { report: 'settlement', from: '2026-11-01', to: '2026-11-02' },
    })
  ).json().id
  const unusedId = '3f8e1f0e-6c2d-4b5a-9a51-0c7c4f2f9d11'
  ids = {
    order: { theirs: open, none: unusedId },
    paid: { theirs: paid, none: unusedId },
    provider: { theirs: mp_order_id, none: 'ORD01K8ZQ4M7N2P5R6S7T8V9W0X1Y' },
    store: { theirs: 'V-STORE', none: 'X-STORE' },
    box: { theirs: 'V-BOX', none: 'X-BOX' },
    closing: { theirs: await openClosing(), none: unusedId },
    fetch: { theirs: fetchId, none: unusedId },
    orphan: { theirs: await findOrphan(), none: unusedId },
    chargeback: { theirs: await openChargeback(), none: unusedId },
  }
  attacks = attacksOf((await call(service, { url: '/openapi.json' })).json())
})
afterAll(() => service.stop())

/** A closing of the victim with its result. */
async function openClosing(): Promise<string> {
  const body = { caja_id: 'CAJA-1', business_day: '2026-01-05' }
  const { id } = (await call(service, { url: '/closings', token: victim.key, body })).json()
  await service.paymentWatch.watchOnce()
  return id
}

/** A charge that was typed into the terminal of the victim. */
async function findOrphan(): Promise<string> {
  await typeCharge(service, victim, { at: undefined })
  service.clock.advance(10 * 60_000)
  await service.paymentWatch.watchOnce()
  const listed = await call(service, { url: '/orphans', token: victim.key })
  return listed.json().orphans[0].id
}

/** A charge-back of the victim. */
async function openChargeback(): Promise<string> {
  const { db } = service.database
  const { payment_id } = await db
    .selectFrom('provider_payments')
    .select('payment_id')
    .where('client', '=', asClientName('victim'))
    .executeTakeFirstOrThrow()
  await sandboxCall(service, 'POST', '/_sandbox/chargebacks', { payment_id })
  service.clock.advance(10 * 60_000)
  await service.paymentWatch.watchOnce()
  const listed = await call(service, { url: '/chargebacks', token: victim.key })
  return listed.json().chargebacks[0].id
}

/**
 * What the parameters and fields of client routes name, by kind; null for what names no record of a client. A name that is
 * missing here fails the test, so a new route is attacked from its first day.
 */
const kindOf: Record<
  string,
  'order' | 'store' | 'box' | 'closing' | 'fetch' | 'orphan' | 'chargeback' | null
> = {
  orderId: 'order',
  order_id: 'order',
  storeExternalId: 'store',
  sucursal_id: 'store',
  posExternalId: 'box',
  caja_id: 'box',
  closingId: 'closing',
  orphanId: 'orphan',
  // A refund of the order that the path names.
  refund_id: null,
  // A decision of the order that the path names.
  replaces: null,
  chargebackId: 'chargeback',
  // Of records that the request creates under the name of the caller.
  external_id: null,
  external_reference: null,
  ticket_number: null,
  'idempotency-key': null,
  'x-reason': null,
  // The other test files show that these name no client but the caller's own.
  client: null,
  cursor: null,
  'last-event-id': null,
  // Of a report, which is stored under the name of the caller.
  content: null,
  zone: null,
  group: null,
  report: null,
  fetchId: 'fetch',
  // Of endpoints: test/payment/event-endpoints.test.ts.
  id: null,
  event_id: null,
  ...Object.fromEntries(
    `after amount before business_day consumer declared description dry_run expiration_minutes failed from language to limit only offset location city_name latitude longitude most_boxes reference state_name
      street_name street_number max_seconds name operating_mode outcome overlap_seconds payment_method pos print_ticket q as reader reason standing state status time_zone totals types url version wait`
      .split(/\s+/)
      .map((name) => [name, null]),
  ),
}
/** Ids of each kind that are tried. */
const idsOf = {
  order: ['order', 'paid', 'provider'],
  store: ['store'],
  box: ['box'],
  closing: ['closing'],
  fetch: ['fetch'],
  orphan: ['orphan'],
  chargeback: ['chargeback'],
} as const
/** Other values that an attacker sends, where the route accepts them. */
const samples: Record<string, string> = {
  client: 'attacker',
  wait: '1',
  max_seconds: '1',
  version: '1',
  limit: '10',
  amount: '1,00',
  status: 'created',
  // An endpoint is refused by it, whatever else it is of.
  url: 'https://127.0.0.1/',
  id: `ep_${'0'.repeat(32)}`,
  event_id: `evt_${'0'.repeat(32)}`,
  from: new Date(Date.now() - 3_600_000).toISOString(),
  'last-event-id': '1',
  'idempotency-key': 'a-key-of-the-attacker',
}
/** Ids of the attacker, for the parts of a request that are not attacked. */
const own: Record<string, string> = { store: 'SUC-1', box: 'CAJA-1', order: 'none' }

type Attack = { name: string; kind: keyof typeof ids; make: (id: string) => Call }

/**
 * Every request of the served document in which a client names a record, with each of its names set to an id in turn: once with
 * the required fields only, and once with all fields.
 */
function attacksOf(document: OpenApiDocument): Attack[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]) => {
      if (!operation.security.some((one) => 'clientKey' in one)) return []
      const { properties, schema } = fieldsOf(
        document,
        operation.requestBody?.content['application/json'].schema,
      )
      const parameters = operation.parameters ?? []
      const fields = [...parameters.map(({ name }) => name), ...Object.keys(properties)]
      return fields.flatMap((field) => {
        const kind = kindOf[field]
        if (kind === undefined) throw new Error(`add to kindOf what ${field} of ${path} names`)
        if (kind === null) return []
        return idsOf[kind].flatMap((key) =>
          [false, true].map((isWhole) => ({
            name: `${method.toUpperCase()} ${path} by ${field} of ${key}${isWhole ? ', whole' : ''}`,
            kind: key,
            make: (id: string): Call => {
              const value = (name: string) =>
                name === field ? id : (own[kindOf[name] ?? ''] ?? samples[name])
              const inQuery = parameters.filter(
                ({ in: place, name, required }) =>
                  place === 'query' && (name === field || isWhole || required === true),
              )
              const query = inQuery.flatMap(({ name }) => {
                const given = value(name)
                return given === undefined || (kindOf[name] && name !== field)
                  ? []
                  : [[name, given]]
              })
              const headers = parameters.filter(({ in: place }) => place === 'header' && isWhole)
              const example = schema.example as Record<string, unknown> | undefined
              const required = Object.keys(properties).filter(
                (name) => isWhole || name === field || schema.required?.includes(name),
              )
              const body = Object.fromEntries(
                required.map((name) => [name, value(name) ?? example?.[name]]),
              )
              return {
                method: method.toUpperCase() as 'GET',
                url: `${path.replace(/\{(\w+)\}/g, (_, name: string) => value(name) ?? '')}?${new URLSearchParams(query as [string, string][])}`,
                headers: Object.fromEntries(
                  headers.map(({ name }) => [name, samples[name] ?? 'x']),
                ),
                ...(operation.requestBody && { body }),
              }
            },
          })),
        )
      })
    }),
  )
}

/** The answer without its request id and without the id that was asked for. */
async function answerTo(request: Call, id: string): Promise<string> {
  const { statusCode, body, headers } = await call(service, { ...request, token: attacker.key })
  const text = body.replaceAll(id, '<id>').replace(/"request_id":"[^"]+"/, '"request_id":""')
  return `${statusCode} ${headers['content-type']} ${text}`
}

/** All records of the victim, here and at the provider. */
async function recordsOfVictim(): Promise<unknown> {
  await service.deps.statusChecks.flush()
  const { db } = service.database
  const rows: Record<string, unknown> = {}
  for (const table of [
    'orders',
    'order_operations',
    'order_events',
    'stores',
    'pos',
    'closings',
    'orphans',
    'chargebacks',
  ]) {
    const found = await sql`select to_jsonb(t) as row from ${sql.table(table)} t
      where client = 'victim' order by to_jsonb(t)::text`.execute(db)
    rows[table] = found.rows
  }
  const state = (await sandboxCall(service, 'GET', '/_sandbox/state')) as Record<string, unknown>
  delete state.now
  return { rows, state, ledger: service.sandbox.ledger() }
}

test('T2: for another client, records of a client and records that do not exist give the same answer', {
  tags: ['long'],
}, async () => {
  for (const { name, kind, make } of attacks) {
    const { theirs, none } = ids[kind]
    const seen = await answerTo(make(theirs), theirs)
    expect(seen, name).toBe(await answerTo(make(none), none))
    expect(seen, name).toMatch(
      // The address of an endpoint is refused, whatever box or store it is of.
      /^404 |^422 .*EVENTS_PRIVATE_NETWORK|^200 .*(\{"terminals":\[\]\}|\{"events":\[\],"next":"\w+","has_more":false\}|\{"changes":\[\],"next_before":null\}|\{"(orders|closings|orphans|chargebacks)":\[\],"total":0[^}]*\})$/,
    )
  }
  expect(attacks.length).toBeGreaterThan(40)
})

test('T2: no request of another client changes a record of a client, here or at the provider', {
  tags: ['long'],
}, async () => {
  const before = await recordsOfVictim()
  await sandboxCall(service, 'DELETE', '/_sandbox/requests')
  for (const { kind, make } of attacks) await answerTo(make(ids[kind].theirs), ids[kind].theirs)
  expect(await recordsOfVictim()).toEqual(before)
  const { requests } = (await sandboxCall(service, 'GET', '/_sandbox/requests')) as {
    requests: { user_id: number | null; method: string }[]
  }
  expect(requests.filter(({ user_id }) => user_id === victim.mpUserId)).toEqual([])
  expect(requests.filter(({ method }) => method !== 'GET')).toEqual([])
})

test('lists contain records of the calling client only', async () => {
  const list = async (url: string) => (await call(service, { url, token: attacker.key })).json()
  expect((await list('/orders')).orders).toEqual([])
  const { stores } = await list('/stores')
  expect(stores.map((store: { external_id: string }) => store.external_id)).toEqual(['SUC-1'])
  const { terminals } = await list('/terminals')
  expect(terminals).toHaveLength(1)
  expect(terminals[0].id).not.toBe(victim.terminalId)
})

test('the owner gets his records, so the comparison with other clients is meaningful', async () => {
  for (const id of [ids.order.theirs, ids.provider.theirs]) {
    expect((await call(service, { url: `/orders/${id}`, token: victim.key })).statusCode).toBe(200)
  }
  const store = await call(service, { url: '/stores/V-STORE', token: victim.key })
  expect(store.json().pos).toMatchObject([{ external_id: 'V-BOX' }])
})
