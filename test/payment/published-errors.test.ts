import type { LightMyRequestResponse } from 'fastify'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { ProviderError } from '../../src/provider/provider.ts'
import {
  close,
  openClosing,
  readClosing,
  sell,
  typeCharge,
  watchAfter,
} from '../closings/shop-day.ts'
import {
  cancel,
  canceling,
  clearFaults,
  creation,
  newAccount,
  openOwnShop,
  reading,
  refund,
  refunding,
  retireShops,
  setFaults,
} from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import {
  act,
  call,
  changeAccount,
  charge,
  createStore,
  pairTerminal,
  payByCard,
  readOrder,
  type Shop,
} from '../support/till.ts'

/**
 * Each error that a route about money publishes is provoked, and each answer is compared with what is published: status, code,
 * outcome, retry_safe, retry and fields.
 */
type Examples = Record<string, { value: Record<string, unknown> }>
type Operation = {
  operationId: string
  responses: Record<string, { content?: Record<string, { examples?: Examples }> }>
}

let service: TestService
let duplicate: TestService
let hurried: TestService
const published = new Map<string, string[]>()

beforeAll(async () => {
  service = await startTestService({ hangsAreShort: true })
  duplicate = await startTestService({ twinOf: service })
  hurried = await startTestService({ twinOf: service, env: { RATE_LIMIT_PER_SECOND: '1' } })
  const { paths } = (await service.app.inject('/openapi.json')).json()
  for (const { operationId, responses } of Object.values(paths).flatMap((path) =>
    Object.values<Operation>(path as Record<string, Operation>),
  )) {
    const forms = Object.entries(responses).flatMap(([status, { content }]) =>
      Object.values(content?.['application/json']?.examples ?? {}).map(({ value }) =>
        formOf(Number(status), value),
      ),
    )
    published.set(operationId, forms)
  }
})
beforeEach(() => clearFaults(service))
afterEach(() => retireShops(service))
afterAll(async () => {
  await duplicate.stop()
  await hurried.stop()
  await service.stop()
})

/** What is compared of an error. */
function formOf(status: number, body: Record<string, unknown>): string {
  const { code, outcome, retry_safe: isSafe, retry } = body
  const fields = Object.keys(body).toSorted().join(' ')
  return `${status} ${code}: ${outcome}, ${isSafe}, ${retry}; ${fields}`
}

type Answer = Promise<LightMyRequestResponse>
/** One answer of an operation about a new shop. */
type Provoke = (shop: Shop) => Answer

const database = () => service.database.db

async function disconnect({ key }: Shop): Promise<void> {
  await call(service, { method: 'POST', url: '/oauth/logout', token: key })
}

async function loseConnection({ client }: Shop): Promise<void> {
  await database()
    .updateTable('oauth_connections')
    .set({ status: 'lost' })
    .where('client', '=', client as never)
    .execute()
}

/** The answer while each statement fails with `error`. */
async function failing(error: Error, request: () => Answer): Answer {
  const { db } = service.database
  const fails = () => {
    throw error
  }
  Object.assign(db, { getExecutor: fails, executeQuery: fails })
  try {
    return await request()
  } finally {
    // Those of the prototype again.
    Reflect.deleteProperty(db, 'getExecutor')
    Reflect.deleteProperty(db, 'executeQuery')
  }
}

/** The answer while the provider cannot be reached by one kind of call. */
async function unreachable(name: 'create' | 'cancel' | 'refund', request: () => Answer): Answer {
  const { orders } = service.deps.provider
  const { [name]: call } = orders
  const fails = async () => {
    throw new ProviderError({
      ...{ kind: 'unreachable', effect: 'none', failure: 'connect', status: null, attempts: 1 },
      ...{ providerCode: null, codes: [], providerMessage: null },
      ...{ retryAfterSeconds: null, requestId: null },
    })
  }
  Object.assign(orders, { [name]: fails })
  try {
    return await request()
  } finally {
    Object.assign(orders, { [name]: call })
  }
}

const databaseDown = () =>
  Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:5432'), { code: 'ECONNREFUSED' })

/** Errors of the listener and of access, of a route that takes a JSON body. */
function common(url: (shop: Shop) => string, body: (shop: Shop) => object): Provoke[] {
  const post = (
    shop: Shop,
    payload: unknown,
    headers: Record<string, string> = { 'content-type': 'application/json' },
    query = '',
    to: TestService = service,
  ) =>
    to.app.inject({
      method: 'POST',
      url: `${url(shop)}${query}`,
      headers: { 'x-api-token': shop.key, ...headers },
      payload: typeof payload === 'string' ? payload : JSON.stringify(payload),
    })
  return [
    (shop) => post(shop, '{'),
    (shop) => post(shop, { ...body(shop), surprise: 1 }),
    (shop) => post(shop, body(shop), { 'content-type': 'text/plain' }),
    (shop) => post(shop, `{"x":"${'x'.repeat(300_000)}"}`),
    (shop) => post({ ...shop, key: 'mk_0' }, body(shop)),
    (shop) => post(shop, body(shop), undefined, '?client=somebody'),
    (shop) => post({ ...shop, key: adminToken }, body(shop), undefined, '?client=nobody'),
    (shop) => failing(new Error('a mistake'), () => post(shop, body(shop))),
    (shop) => failing(databaseDown(), () => post(shop, body(shop))),
    async (shop) => {
      const answers = await Promise.all(
        Array.from({ length: 5 }, () => post(shop, { surprise: 1 }, undefined, '', hurried)),
      )
      return answers.find(({ statusCode }) => statusCode === 429) as LightMyRequestResponse
    },
  ]
}

/** Codes that no request here can provoke, and where they are shown. */
const shownElsewhere: Record<string, string> = {
  REQUEST_TIMEOUT: 'needs a slow socket: test/http/slow-clients.test.ts',
  CALLER_GONE: 'the client that would read it is gone: test/http/errors.test.ts',
}

/** All published errors of an operation, or those of some codes. */
async function compare(
  operationId: string,
  provocations: readonly Provoke[],
  codes?: readonly string[],
): Promise<void> {
  const all = published.get(operationId) ?? []
  const forms = all.filter((form) => codes === undefined || codes.includes(codeIn(form)))
  const answered = new Set<string>()
  const unpublished: string[] = []
  for (const [index, provoke] of provocations.entries()) {
    await clearFaults(service)
    const answer = await provoke(await openOwnShop(service, `${operationId} ${index}`))
    const form = formOf(answer.statusCode, answer.json())
    if (!forms.includes(form)) unpublished.push(`${index}: ${form}`)
    answered.add(form)
  }
  const neverAnswered = forms.filter(
    (form) => !answered.has(form) && !(codeIn(form) in shownElsewhere),
  )
  expect({ unpublished, neverAnswered }).toEqual({ unpublished: [], neverAnswered: [] })
}

function codeIn(form: string): string {
  return form.split(/[ :]/)[1] ?? ''
}

const sale = { reference: 'A-1' }

async function ordered(shop: Shop): Promise<string> {
  return (await charge(service, shop, sale)).json().order_id
}

async function paidOrder(shop: Shop, how: Record<string, unknown> = payByCard): Promise<string> {
  const orderId = await ordered(shop)
  await act(service, orderId, how)
  await readOrder(service, shop, orderId)
  return orderId
}

const listing = { path: '^/terminals', method: 'GET' }

/** Charges, and does something else while the charge reads its terminal. */
async function chargeMeanwhile(shop: Shop, meanwhile: () => Promise<unknown>): Answer {
  const { terminals } = service.deps.provider
  const { list } = terminals
  terminals.list = async (...given) => {
    terminals.list = list
    const found = await list(...given)
    await meanwhile()
    return found
  }
  return charge(service, shop, sale)
}

test('POST /orders: every error is published as it is answered', { tags: ['long'] }, async () => {
  const refusedBy = (rule: object): Provoke => {
    return async (shop) => {
      await setFaults(service, { ...creation, kind: 'status', ...rule })
      return charge(service, shop, sale)
    }
  }
  await compare('createOrder', [
    ...common(
      () => '/orders',
      () => ({ caja_id: 'CAJA-1', external_reference: 'A-1', amount: '10,00' }),
    ),
    (shop) => charge(service, shop, { ...sale, box: 'CAJA-9' }),
    async (shop) => {
      await disconnect(shop)
      return charge(service, shop, sale)
    },
    async (shop) => {
      await loseConnection(shop)
      return charge(service, shop, sale)
    },
    (shop) => chargeMeanwhile(shop, () => changeAccount(service, shop, newAccount())),
    async (shop) => {
      await createStore(service, shop, { id: 'SUC-2', boxes: ['CAJA-2'] })
      return charge(service, shop, { ...sale, box: 'CAJA-2' })
    },
    async (shop) => {
      await createStore(service, shop, { id: 'SUC-2', boxes: ['CAJA-2'] })
      await pairTerminal(service, shop, 'CAJA-2', 'STANDALONE')
      return charge(service, shop, { ...sale, box: 'CAJA-2' })
    },
    async (shop) => {
      await ordered(shop)
      return charge(service, shop, { reference: 'A-2' })
    },
    refusedBy({ status: 409, code: 'already_queued_order_on_terminal' }),
    async (shop) => {
      const headers = { 'idempotency-key': 'k-1' }
      await charge(service, shop, { ...sale, headers })
      return charge(service, shop, { reference: 'A-2', headers })
    },
    async (shop) => {
      await paidOrder(shop)
      return charge(service, shop, sale)
    },
    refusedBy({ status: 400, code: 'property_value' }),
    refusedBy({ status: 429, code: 'too_many_requests' }),
    (shop) => unreachable('create', () => charge(service, shop, sale)),
    async (shop) => {
      await setFaults(service, { ...listing, kind: 'status', status: 400, code: 'bad_request' })
      return charge(service, shop, sale)
    },
    async (shop) => {
      await setFaults(service, { ...listing, kind: '500' })
      return charge(service, shop, sale)
    },
    async (shop) => {
      await setFaults(service, { ...listing, kind: 'hang' })
      return charge(service, shop, sale)
    },
    async (shop) => {
      await setFaults(service, { ...creation, kind: 'hang' })
      return charge(service, shop, sale)
    },
    (shop) =>
      chargeMeanwhile(shop, async () => {
        await setFaults(service, { ...listing, kind: 'status', status: 409, code: 'conflict' })
        await charge(duplicate, shop, sale)
        await clearFaults(service)
      }),
  ])
})

test('POST /orders/cancel: every error is published as it is answered', {
  tags: ['long'],
}, async () => {
  const onOpen = (before: (shop: Shop, orderId: string) => Promise<unknown>): Provoke => {
    return async (shop) => {
      const orderId = await ordered(shop)
      const { key } = ((await before(shop, orderId)) ?? shop) as Shop
      return cancel(service, { key: key ?? shop.key }, orderId)
    }
  }
  const refusedBy = (rule: object) =>
    onOpen(() => setFaults(service, { ...canceling, kind: 'status', ...rule }))
  await compare('cancelOrder', [
    ...common(
      () => '/orders/cancel',
      () => ({ order_id: '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7' }),
    ),
    (shop) => cancel(service, shop, '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7'),
    onOpen(disconnect),
    onOpen(loseConnection),
    onOpen((shop) => changeAccount(service, shop, newAccount())),
    onOpen(async (shop, orderId) => {
      await act(service, orderId, { do: 'fetch' })
      await readOrder(service, shop, orderId)
      await setFaults(service, {
        ...canceling,
        kind: 'status',
        status: 409,
        code: 'cannot_cancel_order',
      })
    }),
    onOpen(async (_shop, orderId) => act(service, orderId, payByCard)),
    onOpen(async (_shop, orderId) => act(service, orderId, { do: 'expire' })),
    refusedBy({ status: 400, code: 'property_value' }),
    refusedBy({ status: 429, code: 'too_many_requests' }),
    async (shop) => {
      const orderId = await ordered(shop)
      return unreachable('cancel', () => cancel(service, shop, orderId))
    },
    onOpen(() => setFaults(service, { ...canceling, kind: 'hang' }, { ...reading, kind: '500' })),
  ])
})

test('POST /orders/refund: every error is published as it is answered', {
  tags: ['long'],
}, async () => {
  const onPaid = (
    before: (shop: Shop, orderId: string) => Promise<unknown>,
    amount?: string,
  ): Provoke => {
    return async (shop) => {
      const orderId = await paidOrder(shop)
      const { key } = ((await before(shop, orderId)) ?? shop) as Shop
      return refund(service, { key: key ?? shop.key }, orderId, amount)
    }
  }
  const refusedBy = (rule: object) =>
    onPaid(() => setFaults(service, { ...refunding, kind: 'status', ...rule }))
  await compare('refundOrder', [
    ...common(
      () => '/orders/refund',
      () => ({ order_id: '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7' }),
    ),
    onPaid(disconnect),
    onPaid(loseConnection),
    onPaid((shop) => changeAccount(service, shop, newAccount())),
    async (shop) => {
      const orderId = await ordered(shop)
      await cancel(service, shop, orderId)
      return refund(service, shop, orderId)
    },
    onPaid(async (shop, orderId) => void (await refund(service, shop, orderId, undefined, 'k-1'))),
    async (shop) => refund(service, shop, await ordered(shop)),
    refusedBy({ status: 400, code: 'invalid_order_owner' }),
    refusedBy({ status: 409, code: 'refund_period_exceeded' }),
    refusedBy({ status: 409, code: 'refund_in_progress' }),
    refusedBy({ status: 400, code: 'unsupported_partially_refunds' }),
    onPaid(async () => {}, '99999,00'),
    async (shop) => {
      const orderId = await paidOrder(shop)
      await refund(service, shop, orderId, '10,00', 'k-1')
      return refund(service, shop, orderId, '20,00', 'k-1')
    },
    refusedBy({ status: 400, code: 'property_value' }),
    refusedBy({ status: 429, code: 'too_many_requests' }),
    async (shop) => {
      const orderId = await paidOrder(shop)
      return unreachable('refund', () => refund(service, shop, orderId))
    },
    onPaid(() => setFaults(service, { ...refunding, kind: 'hang' })),
  ])
})

const ofPayment = { path: '^/v1/payments/[0-9]+/refunds$', method: 'POST' }
const paymentRead = { path: '^/v1/payments/[0-9]+$', method: 'GET' }

function settle(shop: Pick<Shop, 'key'>, id: string, how: string): Answer {
  const url = `/orphans/${id}/${how}`
  return call(service, { url, token: shop.key, body: { reason: 'por prueba' } })
}

test('POST /orphans/{orphanId}/refund: every error is published as it is answered', {
  tags: ['long'],
}, async () => {
  const onOrphan = (before: (shop: Shop, id: string) => Promise<unknown>): Provoke => {
    return async (shop) => {
      await sell(service, shop, 'A-1')
      await typeCharge(service, shop)
      await watchAfter(service, 5 * 60_000)
      const [orphan] = (await call(service, { url: '/orphans', token: shop.key })).json().orphans
      await before(shop, orphan.id)
      const answer = await settle(shop, orphan.id, 'refund')
      await retireShops(service)
      return answer
    }
  }
  const refusedBy = (rule: object) =>
    onOrphan(() => setFaults(service, { ...ofPayment, kind: 'status', ...rule }))
  const unknown = '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7'
  await compare('refundOrphan', [
    ...common(
      () => `/orphans/${unknown}/refund`,
      () => ({ reason: 'por prueba' }),
    ),
    (shop) => settle(shop, unknown, 'refund'),
    onOrphan(disconnect),
    onOrphan(loseConnection),
    onOrphan((shop, id) => settle(shop, id, 'dismiss')),
    onOrphan(() =>
      setFaults(service, { ...paymentRead, kind: 'status', status: 403, code: 'forbidden' }),
    ),
    onOrphan(() => setFaults(service, { ...paymentRead, kind: '500' })),
    onOrphan(() => setFaults(service, { ...paymentRead, kind: 'hang' })),
    refusedBy({ status: 409, code: 'refund_in_progress' }),
    refusedBy({ status: 404, code: 'not_found', cause: 2024 }),
    refusedBy({ status: 400, code: 'bad_request', cause: 2030 }),
    onOrphan(() => setFaults(service, { ...ofPayment, kind: 'hang' })),
  ])
})

test('errors of closings and deletions are published with their fields', {
  tags: ['long'],
}, async () => {
  const closed = async (shop: Shop) => {
    await sell(service, shop, 'A-1')
    return (await close(service, shop)).id as string
  }
  const count = (shop: Shop, id: string) =>
    call(service, {
      url: `/closings/${id}/count`,
      token: shop.key,
      body: { declared: { credit_card: '1,00' } },
    })
  const signed = async (shop: Shop) => {
    const id = await closed(shop)
    await call(service, { method: 'POST', url: `/closings/${id}/sign`, token: shop.key })
    return id
  }
  const span = (shop: Shop, fromMs: number, toMs: number, body: object = {}) => {
    const at = (ms: number) => new Date(service.clock.now().getTime() + ms).toISOString()
    const time = { from: at(fromMs), to: at(toMs), business_day: undefined }
    return openClosing(service, shop, { ...time, ...body })
  }
  const minute = 60_000
  await compare(
    'openClosing',
    [
      async (shop) => {
        await closed(shop)
        return span(shop, -3_000 * minute, -minute)
      },
      async (shop) => {
        await span(shop, -2 * minute, -minute)
        await sell(service, shop, 'A-1')
        service.clock.advance(10 * minute)
        return span(shop, -minute, 0)
      },
      async (shop) => {
        const { from, to } = await readClosing(service, shop, await signed(shop))
        const time = { from, to, business_day: undefined }
        return openClosing(service, shop, { ...time, declared: { credit_card: '1,00' } })
      },
    ],
    ['CLOSING_OVERLAPS', 'CLOSING_GAP', 'CLOSING_SIGNED'],
  )
  await compare(
    'countClosing',
    [async (shop) => count(shop, await signed(shop))],
    ['CLOSING_SIGNED'],
  )
  const deletions = { deleteStore: '/stores/SUC-1', deletePos: '/stores/SUC-1/pos/CAJA-1' }
  for (const [operationId, url] of Object.entries(deletions)) {
    const remove: Provoke = async (shop) => {
      await sell(service, shop, 'A-1')
      return call(service, { method: 'DELETE', url, token: shop.key })
    }
    await compare(operationId, [remove], ['CHARGES_NOT_CLOSED'])
  }
})

test('a repeated paid sale gets its order by its key, and ORDER_ALREADY_PAID by its content, as published', async () => {
  const { paths, components } = (await service.app.inject('/openapi.json')).json()
  const { responses } = paths['/orders'].post
  const said = ({ outcome, retry_safe: isSafe, status, cashier }: Record<string, unknown>) => ({
    ...{ outcome, isSafe, status, action: (cashier as { action: string }).action },
  })
  const repeated = async (name: string, headers: Record<string, string>) => {
    const shop = await openOwnShop(service, `repeated ${name}`)
    const { order_id: orderId } = (await charge(service, shop, { ...sale, headers })).json()
    await act(service, orderId, payByCard)
    const answer = await charge(service, shop, { ...sale, headers })
    expect(answer.json().order_id).toBe(orderId)
    return answer
  }
  const keyed = await repeated('by key', { 'idempotency-key': 'k-1' })
  expect(keyed.statusCode).toBe(200)
  const { example } = components.schemas.OrderRepeated
  expect(responses[200].content['application/json'].schema.$ref).toMatch(/OrderRepeated$/)
  expect(said(keyed.json())).toEqual(said(example))
  expect(keyed.json().cashier.message).toBe(example.cashier.message)

  const bare = await repeated('by content', {})
  expect(bare.statusCode).toBe(409)
  const { ORDER_ALREADY_PAID: shown } = responses[409].content['application/json'].examples
  expect(said(bare.json())).toEqual(said(shown.value))
  expect(bare.json().cashier.message).toBe(shown.value.cashier.message)
})

test('a till that repeats while retry says so stops at once at an unknown box, with its sentence', async () => {
  const shop = await openOwnShop(service, 'loop')
  const answer = await charge(service, shop, { ...sale, box: 'CAJA-9' })
  expect(answer.json()).toMatchObject({ retry_safe: true, retry: 'after_change' })
  expect(answer.json().error).toBe('There is no such box; check caja_id')
})
