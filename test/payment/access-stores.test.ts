import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { backUp } from '../support/database.ts'
import { ordersAtProvider } from '../support/money.ts'
import { by, join, ownPage, type TestPerson } from '../support/people.ts'
import { routesOf } from '../support/routes.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  type Call,
  call,
  charge,
  createStore,
  openShop,
  pairTerminal,
  payByCard,
  type Till,
} from '../support/till.ts'

/** Hashing a password takes 0.1 s of processor time, and other work keeps the processors busy. */
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let service: TestService
let shop: Till & { terminalId: string }
let supervisor: TestPerson
/** An order and a closing of the supervisor's store, and of another store of the same client. */
let own: { order: string; closing: string }
let foreign: { order: string; closing: string }
const unusedId = '3f8e1f0e-6c2d-4b5a-9a51-0c7c4f2f9d11'

beforeAll(async () => {
  // A stream that is opened by mistake ends at once, so that its test fails without waiting.
  service = await startTestService({ streams: { longestMs: 1 } })
  shop = await openShop(service, 'acme', '9400001')
  const { stores } = (await call(service, { url: '/stores', token: shop.key })).json()
  await createStore(service, shop, { id: 'FOREIGN-STORE', boxes: ['FOREIGN-BOX'] })
  await pairTerminal(service, shop, 'FOREIGN-BOX')
  supervisor = await join(service, {
    name: 'ana',
    role: 'supervisor',
    client: 'acme',
    stores: [stores[0].external_id],
  })
  own = { order: await sell('CAJA-1', 'OWN-1'), closing: await close('CAJA-1') }
  foreign = { order: await sell('FOREIGN-BOX', 'FOREIGN-1'), closing: await close('FOREIGN-BOX') }
  await service.paymentWatch.watchOnce()
})
afterAll(() => service.stop())

async function sell(box: string, reference: string): Promise<string> {
  const { order_id: id } = (await charge(service, shop, { box, reference })).json()
  await act(service, id, payByCard)
  await call(service, { url: `/orders/${id}`, token: shop.key })
  return id
}

async function close(box: string): Promise<string> {
  const body = { caja_id: box, business_day: '2026-01-05' }
  return (await call(service, { url: '/closings', token: shop.key, body })).json().id
}

test('T58: the lists of a supervisor contain records of his stores and of no other', {
  tags: ['long'],
}, async () => {
  const day = new Date(service.clock.now().getTime() - 3_600_000).toISOString()
  for (const url of [
    '/orders?totals=true',
    '/stores',
    '/terminals',
    '/closings',
    '/orphans',
    '/chargebacks',
    '/health/fleet',
    '/health/fleet/changes',
    `/statistics?from=${day}`,
    `/overview?from=${day}`,
    `/sales?from=${day}`,
  ]) {
    const whole = await call(service, { url, token: shop.key })
    const answer = await by(service, supervisor, { url })
    expect([url, answer.statusCode, answer.body.includes('FOREIGN')]).toEqual([url, 200, false])
    const named = [
      '/orders?totals=true',
      '/stores',
      '/closings',
      '/health/fleet',
      `/sales?from=${day}`,
    ]
    if (named.includes(url)) expect([url, whole.body.includes('FOREIGN')]).toEqual([url, true])
  }
  const { orders, total, totals } = (
    await by(service, supervisor, { url: '/orders?totals=true' })
  ).json()
  expect([orders.length, total, totals.all.orders]).toEqual([1, 1, 1])
  const statistics = (await by(service, supervisor, { url: `/statistics?from=${day}` })).json()
  expect([statistics.orders, statistics.paid]).toEqual([1, 1])
  const sales = (await by(service, supervisor, { url: `/sales?from=${day}` })).json()
  expect([sales.total.paid, sales.stores.length]).toEqual([1, 1])
})

const attacks: [what: string, request: (id: 'theirs' | 'none') => Call][] = [
  ...(
    [
      ['GET', ''],
      ['GET', '/timeline'],
      ['GET', '/events'],
      ['POST', '/ask'],
      ['POST', '/settle', { as: 'paid', reason: 'seen' }],
    ] as const
  ).map(([method, path, body]): [string, (id: 'theirs' | 'none') => Call] => [
    `${method} /orders/:orderId${path}`,
    (id) => ({ method, url: `/orders/${id === 'theirs' ? foreign.order : unusedId}${path}`, body }),
  ]),
  [
    'cancel',
    (id) => ({
      url: '/orders/cancel',
      body: { order_id: id === 'theirs' ? foreign.order : unusedId },
    }),
  ],
  [
    'refund',
    (id) => ({
      url: '/orders/refund',
      body: { order_id: id === 'theirs' ? foreign.order : unusedId },
    }),
  ],
  [
    'charge',
    (id) => ({
      url: '/orders',
      body: {
        caja_id: id === 'theirs' ? 'FOREIGN-BOX' : 'NO-BOX',
        external_reference: 'X',
        amount: '1,00',
      },
    }),
  ],
  ['store', (id) => ({ url: `/stores/${id === 'theirs' ? 'FOREIGN-STORE' : 'NONE'}` })],
  [
    'sales of a store',
    (id) => ({
      url: `/sales/${id === 'theirs' ? 'FOREIGN-STORE' : 'NONE'}?from=${new Date(service.clock.now().getTime() - 3_600_000).toISOString()}`,
    }),
  ],
  [
    'mode of a terminal',
    (id) => ({
      method: 'PATCH',
      url: '/terminals/operating-mode',
      body: { caja_id: id === 'theirs' ? 'FOREIGN-BOX' : 'NO-BOX', operating_mode: 'STANDALONE' },
    }),
  ],
  [
    'closing of a box',
    (id) => ({
      url: '/closings',
      body: { caja_id: id === 'theirs' ? 'FOREIGN-BOX' : 'NO-BOX', business_day: '2026-01-06' },
    }),
  ],
  [
    'closing of a store',
    (id) => ({
      url: '/closings',
      body: { sucursal_id: id === 'theirs' ? 'FOREIGN-STORE' : 'NONE', business_day: '2026-01-06' },
    }),
  ],
  ...(
    [
      ['GET', ''],
      ['GET', '/csv'],
      ['GET', '/print'],
      ['POST', '/count', { declared: {} }],
      ['POST', '/sign'],
      ['POST', '/amendments', { reason: 'late' }],
    ] as const
  ).map(([method, path, body]): [string, (id: 'theirs' | 'none') => Call] => [
    `${method} /closings/:closingId${path}`,
    (id) => ({
      method,
      url: `/closings/${id === 'theirs' ? foreign.closing : unusedId}${path}`,
      body,
    }),
  ]),
]

test.each(attacks)(
  'T58: for a supervisor, records of another store and records that do not exist give the same answer: %s',
  async (_what, request) => {
    const before = service.sandbox.ledger()
    const answerFor = async (id: 'theirs' | 'none') => {
      const answer = await by(service, supervisor, request(id))
      if (answer.statusCode !== 404) return [answer.statusCode, answer.body]
      const { request_id, order_id, ...body } = answer.json()
      return [404, body]
    }
    const theirs = await answerFor('theirs')
    expect(theirs).toEqual(await answerFor('none'))
    expect(theirs[0]).toBe(404)
    expect(service.sandbox.ledger()).toEqual(before)
  },
)

test('T58: a supervisor acts on orders of his stores, by either id, and loses access at once when a store is removed', async () => {
  const { stores } = (await by(service, supervisor, { url: '/stores' })).json()
  const moved = await join(service, {
    name: 'eva',
    role: 'supervisor',
    client: 'acme',
    stores: [stores[0].external_id],
  })
  const read = () => by(service, moved, { url: `/orders/${own.order}` })
  const { mp_order_id: providerId } = (await read()).json()
  expect((await by(service, moved, { url: `/orders/${providerId}` })).statusCode).toBe(200)
  const refund = await by(service, moved, {
    url: '/orders/refund',
    body: { order_id: own.order, amount: '1,00' },
  })
  expect(refund.statusCode).toBe(200)
  expect((await by(service, moved, { url: `/closings/${own.closing}` })).statusCode).toBe(200)
  await service.app.inject({
    method: 'PATCH',
    url: `/people/${moved.id}`,
    headers: { 'x-api-token': 'admin-token-for-tests-0123456789abcdef', ...ownPage },
    payload: { role: 'supervisor', stores: ['FOREIGN-STORE'] },
  })
  expect((await read()).statusCode).toBe(404)
  expect((await by(service, moved, { url: `/orders/${foreign.order}` })).statusCode).toBe(200)
})

/** A sale of a box that is paid after a backup; the restore forgets it. Returns the provider's id. */
async function forgottenSale(box: string, reference: string): Promise<string> {
  const restore = await backUp(service.database)
  const { order_id: id } = (await charge(service, shop, { box, reference })).json()
  await act(service, id, payByCard)
  await restore()
  const orders = ordersAtProvider(service, shop)
  return orders.find((one) => one.external_reference.startsWith(reference))?.id as string
}

const ofForgotten: [what: string, request: (id: string) => Call][] = [
  ['read', (id) => ({ url: `/orders/${id}` })],
  ['wait', (id) => ({ url: `/orders/${id}?wait=1` })],
  ['timeline', (id) => ({ url: `/orders/${id}/timeline` })],
  ['events', (id) => ({ url: `/orders/${id}/events` })],
  ['ask', (id) => ({ method: 'POST', url: `/orders/${id}/ask` })],
  [
    'settle',
    (id) => ({ url: `/orders/${id}/settle`, body: { as: 'not_paid', reason: 'not seen' } }),
  ],
  ['cancel', (id) => ({ url: '/orders/cancel', body: { order_id: id } })],
  ['refund', (id) => ({ url: '/orders/refund', body: { order_id: id } })],
]

test.each(ofForgotten)(
  'T58: a supervisor gets 404 for an order of another store that only the provider has: %s',
  async (what, request) => {
    const id = await forgottenSale('FOREIGN-BOX', `FORGOTTEN-${what}`)
    const answer = await by(service, supervisor, request(id))
    expect([answer.statusCode, answer.json().code]).toEqual([404, 'NOT_FOUND'])
    const there = ordersAtProvider(service, shop).find((one) => one.id === id)
    expect(there?.status).toBe('processed')
    // The order is of the client all the same.
    expect((await call(service, { url: `/orders/${id}`, token: shop.key })).statusCode).toBe(200)
  },
)

test('a supervisor reads and refunds an order of his store that only the provider has', {
  tags: ['long'],
}, async () => {
  const id = await forgottenSale('CAJA-1', 'FORGOTTEN-OWN')
  const refund = await by(service, supervisor, {
    url: '/orders/refund',
    body: { order_id: id, amount: '1,00' },
  })
  expect([refund.statusCode, refund.json().status]).toEqual([200, 'partially_refunded'])
  expect((await by(service, supervisor, { url: `/orders/${id}` })).statusCode).toBe(200)
})

test('a charge that an equal request made at another store is not shown to a supervisor', async () => {
  await createStore(service, shop, { id: 'FOREIGN-LATER', boxes: ['MOVED-BOX'] })
  await pairTerminal(service, shop, 'MOVED-BOX')
  const sale = { caja_id: 'MOVED-BOX', external_reference: 'MOVED-1', amount: '1234,50' }
  const first = await call(service, {
    url: '/orders',
    token: shop.key,
    headers: { 'idempotency-key': 'moved-1' },
    body: sale,
  })
  expect(first.statusCode).toBe(201)
  // The box is deleted, so only its order tells the store.
  await service.database.db.deleteFrom('pos').where('external_id', '=', 'MOVED-BOX').execute()
  const again = await by(service, supervisor, {
    url: '/orders',
    headers: { 'idempotency-key': 'moved-1' },
    body: sale,
  })
  expect([again.statusCode, again.json().code, again.json().outcome]).toEqual([
    404,
    'NOT_FOUND',
    'unknown',
  ])
  expect(again.body).not.toContain(first.json().order_id)
})

test('an id that has the form of none is refused as such or as missing, for every kind of caller', {
  tags: ['long'],
}, async () => {
  const owner = await join(service, { name: 'pia', role: 'administrator', client: 'acme' })
  const chief = await join(service, { name: 'sol', role: 'administrator' })
  const ids = ['abc', '0', `${unusedId}0`, 'ORD1', '\0', 'á', "'"]
  const answers: string[] = []
  for (const route of routesOf(service)) {
    const [method = '', path = ''] = route.split(' ')
    if (!path.includes(':') || path.startsWith('/guide') || method === 'HEAD') continue
    for (const id of ids) {
      const url = path.replace(/:\w+/g, encodeURIComponent(id))
      const bodies = [{ reason: 'late' }, { as: 'not_paid', reason: 'seen' }, { declared: {} }, {}]
      for (const body of method === 'POST' ? bodies : [undefined]) {
        const request = { method: method as 'GET', url, body }
        for (const [who, answer] of [
          ['key', await call(service, { ...request, token: shop.key })],
          ['supervisor of stores', await by(service, supervisor, request)],
          ['administrator', await by(service, owner, request)],
          ['chief', await by(service, chief, { ...request, url: `${url}?client=acme` })],
        ] as const) {
          if (![400, 403, 404, 422].includes(answer.statusCode)) {
            answers.push(`${who}: ${route} ${id} ${answer.statusCode}`)
          }
        }
      }
    }
  }
  expect(answers).toEqual([])
})
