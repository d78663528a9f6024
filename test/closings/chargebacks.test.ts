import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import {
  auditOf,
  clearFaults,
  deliver,
  forgetRequests,
  openOwnShop,
  orderRow,
  providerRequests,
  refund,
  retireShops,
  setFaults,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  asAdmin,
  call,
  createStore,
  enrol,
  pairTerminal,
  readOrder,
  sandboxCall,
  type Till,
} from '../support/till.ts'
import { close, openClosing, readClosing, sell, typeCharge, watchAfter } from './shop-day.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
beforeEach(async () => {
  await clearFaults(service)
})
afterEach(() => retireShops(service))
afterAll(() => service.stop())

const dayMs = 86_400_000

type Case = { id: string; payments: number[] }

async function dispute(body: object): Promise<Case> {
  return (await sandboxCall(service, 'POST', '/_sandbox/chargebacks', body)) as Case
}

const decide = (id: string, body: object) =>
  sandboxCall(service, 'POST', `/_sandbox/chargebacks/${id}/act`, body)

/** Delivers the provider's webhook of a case: only the query is signed, and the body names the account. */
const deliverCase = (id: string, userId?: number) =>
  deliver(service, {
    dataId: id,
    type: 'topic_chargebacks_wh',
    body: {
      actions: ['changed_case_status'],
      type: 'topic_chargebacks_wh',
      data: { id: Number(id) },
      ...(userId !== undefined && { user_id: userId }),
    },
  })

const deliverOrder = (dataId: string) =>
  deliver(service, { dataId, body: { action: 'order.charged_back', type: 'order', data: {} } })

/** The provider's order names these cases. */
async function showCases(mpOrderId: string, ids: readonly string[]): Promise<void> {
  const path = `/_sandbox/orders/${mpOrderId}/shown`
  const { transactions } = (await sandboxCall(service, 'PUT', path, {})) as { transactions: object }
  const chargebacks = ids.map((id) => ({ case_id: id }))
  await sandboxCall(service, 'PUT', path, { transactions: { ...transactions, chargebacks } })
}

/** Another client on the account of `till`, with a box and a sale of its own. */
async function saleOfAnotherClient(client: string, mpUserId: number) {
  const till = await enrol(service, client, String(mpUserId))
  await createStore(service, till, { id: 'SUC-2', boxes: ['CAJA-2'] })
  await pairTerminal(service, till, 'CAJA-2')
  const orderId = await sell(service, till, 'B-1', { box: 'CAJA-2' })
  await watchAfter(service, 5 * 60_000)
  const { payments } = await orderRow(service, orderId)
  return { till, orderId, paymentId: Number(payments[0]?.referenceId) }
}

async function listOf(till: Till, query = '') {
  return (await call(service, { url: `/chargebacks${query}`, token: till.key })).json()
}

async function actionsOf(client: string): Promise<unknown[]> {
  const audit = await auditOf(service, client)
  return audit.map(({ action }) => action).filter((action) => /^chargeback/.test(String(action)))
}

async function logsOf(resource: string): Promise<unknown[]> {
  const { logs } = (await asAdmin(service, { url: '/admin/webhooks/logs?limit=200' })).json()
  return logs
    .filter((log: { resource_id: string }) => log.resource_id === resource)
    .map((log: { status: string }) => log.status)
}

/** Lets the watch read what happened recently, after a long pause. */
async function catchUp(): Promise<void> {
  await watchAfter(service, 10 * 60_000)
  await watchAfter(service, 10 * 60_000)
}

/** A shop with a sale of weeks ago. */
async function withSale(client: string) {
  const till = await openOwnShop(service, client)
  const orderId = await sell(service, till, 'A-1')
  await service.paymentWatch.watchOnce()
  const { mp_order_id: mpOrderId } = await orderRow(service, orderId)
  service.clock.advance(20 * dayMs)
  return { till, orderId, mpOrderId: String(mpOrderId) }
}

test('the webhook of a case opens it, and the sale of weeks ago stays a sale', {
  tags: ['long'],
}, async () => {
  const { till, orderId, mpOrderId } = await withSale('by case')
  const { id, payments } = await dispute({ order_id: mpOrderId, reason: 'fraud' })
  await deliverCase(id, till.mpUserId)
  const list = await listOf(till)
  expect(list).toMatchObject({
    total: 1,
    chargebacks: [
      {
        state: 'open',
        case_id: id,
        payment_id: String(payments[0]),
        order_id: orderId,
        caja_id: 'CAJA-1',
        amount: '1000.00',
        currency: 'ARS',
        reason: 'fraud',
        coverage_eligible: true,
        coverage_applied: null,
        documentation_status: 'pending',
      },
    ],
  })
  const [one] = list.chargebacks
  expect(Date.parse(one.documents_due_at) - service.clock.now().getTime()).toBeGreaterThan(
    6 * dayMs,
  )
  for (const name of [one.id, id]) {
    expect((await call(service, { url: `/chargebacks/${name}`, token: till.key })).json()).toEqual(
      one,
    )
  }
  const read = (await readOrder(service, till, orderId)).json()
  expect(read).toMatchObject({
    status: 'processed',
    status_detail: 'charged_back',
    outcome: 'charged',
    cashier: { action: 'give_receipt' },
  })
  expect(await actionsOf(till.client)).toEqual(['chargeback.opened'])
  expect(await logsOf(id)).toEqual(['processed'])
  const { entries } = (
    await call(service, { url: `/orders/${orderId}/timeline`, token: till.key })
  ).json()
  expect(JSON.stringify(entries)).toContain('topic_chargebacks_wh')
  await deliverCase(id, till.mpUserId)
  expect((await listOf(till)).total).toBe(1)
  expect(await actionsOf(till.client)).toEqual(['chargeback.opened'])
})

test('the webhook of the order opens the case that the order names', async () => {
  const { till, orderId, mpOrderId } = await withSale('by order')
  const { id } = await dispute({ order_id: mpOrderId })
  await deliverOrder(mpOrderId)
  expect(await listOf(till)).toMatchObject({
    total: 1,
    chargebacks: [{ state: 'open', case_id: id, order_id: orderId }],
  })
  expect((await readOrder(service, till, orderId)).json().outcome).toBe('charged')
})

test.each([
  ['win', 'won', true],
  ['lose', 'lost', false],
])(
  'without webhooks a case is found, and read until it ends with %s',
  { tags: ['long'] },
  async (decision, state, covered) => {
    const { till, orderId, mpOrderId } = await withSale(`no webhook ${decision}`)
    const { id } = await dispute({ order_id: mpOrderId })
    await catchUp()
    expect(await listOf(till)).toMatchObject({ chargebacks: [{ state: 'open', case_id: id }] })
    for (let day = 0; day < 40; day += 20) await watchAfter(service, 20 * dayMs)
    await decide(id, { do: decision })
    await watchAfter(service, dayMs + 60_000)
    expect(await listOf(till, `?state=${state}`)).toMatchObject({
      total: 1,
      chargebacks: [{ case_id: id, coverage_applied: covered, order_id: orderId }],
    })
    expect(await actionsOf(till.client)).toEqual([
      'chargeback.found',
      'chargeback.opened',
      `chargeback.${state}`,
    ])
    expect((await orderRow(service, orderId)).status).toBe('processed')
    await forgetRequests(service)
    await watchAfter(service, 30 * dayMs)
    expect(await providerRequests(service, { method: 'GET', path: `chargebacks/${id}` })).toEqual(
      [],
    )
  },
)

test('coverage_applied decides a case, whatever the order shows', async () => {
  const { till, mpOrderId } = await withSale('by coverage')
  const { id } = await dispute({ order_id: mpOrderId })
  await deliverCase(id, till.mpUserId)
  await decide(id, { do: 'win' })
  await sandboxCall(service, 'PUT', `/_sandbox/orders/${mpOrderId}/shown`, {
    status: 'charged_back',
    status_detail: 'settled',
  })
  await deliverOrder(mpOrderId)
  expect(await listOf(till)).toMatchObject({ chargebacks: [{ state: 'won' }] })
})

test('a case that is reopened after its decision is open here too', async () => {
  const { till, mpOrderId } = await withSale('again')
  const { id } = await dispute({ order_id: mpOrderId })
  await decide(id, { do: 'lose' })
  await deliverCase(id, till.mpUserId)
  await decide(id, { do: 'documentation', odd: { coverage_applied: null } })
  await deliverCase(id, till.mpUserId)
  expect(await listOf(till)).toMatchObject({
    chargebacks: [{ state: 'open', documentation_status: 'review_pending', decided_at: null }],
  })
  expect(await actionsOf(till.client)).toEqual([
    'chargeback.opened',
    'chargeback.lost',
    'chargeback.reopened',
  ])
  await decide(id, { do: 'documentation', odd: { coverage_applied: true } })
  await watchAfter(service, dayMs + 60_000)
  expect(await listOf(till)).toMatchObject({ chargebacks: [{ state: 'won' }] })
})

test('an answer from before the decision of a case that arrives after it does not reopen the case', async () => {
  const { till, mpOrderId } = await withSale('late answer')
  const { id } = await dispute({ order_id: mpOrderId })
  await deliverCase(id, till.mpUserId)
  const { chargebacks } = service.deps.provider
  const { get } = chargebacks
  chargebacks.get = async (...args) => {
    chargebacks.get = get
    const shown = await get(...args)
    service.clock.advance(60_000)
    await decide(id, { do: 'win' })
    await service.deps.database.db
      .updateTable('chargebacks')
      .set({ next_read_at: service.clock.now() })
      .where('case_id', '=', id)
      .execute()
    await service.paymentWatch.watchOnce()
    return shown
  }
  await deliverCase(id, till.mpUserId)
  await service.inbox.idle()
  expect(await listOf(till)).toMatchObject({ chargebacks: [{ state: 'won' }] })
  expect(await actionsOf(till.client)).toEqual(['chargeback.opened', 'chargeback.won'])
})

test('a case that cannot be read yet is unknown, and is read later', {
  tags: ['long'],
}, async () => {
  const { till, mpOrderId } = await withSale('unreadable')
  const { id } = await dispute({ order_id: mpOrderId })
  await setFaults(service, { path: '^/v1/chargebacks', kind: '500' })
  await catchUp()
  expect(await listOf(till, '?state=unknown')).toMatchObject({
    chargebacks: [{ case_id: null, amount: null, coverage_applied: null }],
  })
  await deliverCase(id, till.mpUserId)
  expect(await logsOf(id)).toEqual(['failed'])
  await clearFaults(service)
  await watchAfter(service, 30 * 60_000)
  expect(await listOf(till)).toMatchObject({
    total: 1,
    chargebacks: [{ state: 'open', case_id: id }],
  })
})

test.each<[string, object, object]>([
  ['an invalid amount', { amount: 'mucho' }, { amount: null, state: 'open' }],
  [
    'dates that are null',
    { date_documentation_deadline: null, date_created: null },
    { documents_due_at: null, opened_at: null },
  ],
  [
    'unknown words',
    { documentation_status: 'a_new_word', reason: 17 },
    { documentation_status: 'a_new_word', reason: '17' },
  ],
  [
    'the new spelling',
    { coverage_elegible: undefined, coverage_eligible: false },
    { coverage_eligible: false },
  ],
  ['payments as objects', {}, {}],
  [
    'a coverage that is a word',
    { coverage_applied: 'yes' },
    { coverage_applied: null, state: 'open' },
  ],
])('of a case with %s the other fields are read', async (name, odd, expected) => {
  const { till, mpOrderId } = await withSale(`odd ${name}`)
  const before = await dispute({ order_id: mpOrderId, odd })
  const { id } = before
  if (name === 'payments as objects') {
    await decide(id, {
      do: 'documentation',
      odd: { payments: before.payments.map((one) => ({ id: one })) },
    })
  }
  await deliverCase(id, till.mpUserId)
  expect(await listOf(till)).toMatchObject({
    total: 1,
    chargebacks: [{ case_id: id, ...expected }],
  })
})

test('a case found at once by its webhook, that of the order and the watch is stored once', async () => {
  const { till, mpOrderId } = await withSale('at once')
  const { id } = await dispute({ order_id: mpOrderId })
  await catchUp()
  await service.database.db.deleteFrom('chargebacks').where('case_id', '=', id).execute()
  await Promise.all([
    deliverCase(id, till.mpUserId),
    deliverOrder(mpOrderId),
    service.paymentWatch.watchOnce(),
    deliverCase(id, till.mpUserId),
  ])
  await service.inbox.idle()
  expect(await listOf(till)).toMatchObject({
    total: 1,
    chargebacks: [{ case_id: id, state: 'open' }],
  })
})

test('a charge-back of a payment without an order is stored; one of an online sale is ignored', async () => {
  const till = await openOwnShop(service, 'loose')
  await sell(service, till, 'A-1')
  const typed = await typeCharge(service, till)
  const online = await typeCharge(service, till, { pos_id: undefined })
  await watchAfter(service, 5 * 60_000)
  const mine = await dispute({ payment_id: Number(typed), amount: '50.00' })
  const other = await dispute({ payment_id: Number(online) })
  await deliverCase(mine.id, till.mpUserId)
  await deliverCase(other.id, till.mpUserId)
  expect(await listOf(till)).toMatchObject({
    total: 1,
    chargebacks: [{ payment_id: typed, order_id: null, caja_id: 'CAJA-1', amount: '50.00' }],
  })
  expect([await logsOf(mine.id), await logsOf(other.id)]).toEqual([['processed'], ['ignored']])
})

test('a case that the search shows for a payment which the case does not name is not that payment’s', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'another case')
  const orders = [await sell(service, till, 'A-1'), await sell(service, till, 'A-2')]
  await service.paymentWatch.watchOnce()
  service.clock.advance(20 * dayMs)
  const cases: Case[] = []
  for (const orderId of orders) {
    const { mp_order_id } = await orderRow(service, orderId)
    cases.push(await dispute({ order_id: mp_order_id }))
  }
  const [open, won] = cases as [Case, Case]
  await decide(won.id, { do: 'win' })
  const { chargebacks } = service.deps.provider
  const { search } = chargebacks
  // A provider that does not know the filter shows the cases of all payments.
  chargebacks.search = async () => [won.id, open.id]
  await catchUp()
  chargebacks.search = search
  const stored = (await listOf(till)).chargebacks.map((one: Record<string, unknown>) => [
    one.payment_id,
    one.case_id,
    one.state,
  ])
  expect(stored.toSorted()).toEqual(
    [
      [String(open.payments[0]), open.id, 'open'],
      [String(won.payments[0]), won.id, 'won'],
    ].toSorted(),
  )
})

test('a case of another account is stored for no client, whatever account the unsigned body names', async () => {
  const { till, mpOrderId } = await withSale('owner of a case')
  const other = await openOwnShop(service, 'other account')
  const { id } = await dispute({ order_id: mpOrderId })
  await deliverCase(id, other.mpUserId)
  expect([(await listOf(till)).total, (await listOf(other)).total]).toEqual([0, 0])
  expect(await logsOf(id)).toEqual(['failed'])
})

test('a disputed sale cannot be refunded, and the error names the charge-back', async () => {
  const { till, orderId, mpOrderId } = await withSale('no refund')
  const { id } = await dispute({ order_id: mpOrderId })
  await deliverCase(id, till.mpUserId)
  await forgetRequests(service)
  const refused = await refund(service, till, orderId)
  expect([refused.statusCode, refused.json().code]).toEqual([409, 'ORDER_NOT_REFUNDABLE'])
  expect(refused.json()).toMatchObject({ outcome: 'charged', retry_safe: false })
  expect(refused.json().error).toContain('charge-back')
  expect(await providerRequests(service, { method: 'POST', path: '/refund$' })).toEqual([])
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status: 'processed',
    outcome: 'charged',
  })
  // After a won case the provider decides about a refund.
  await decide(id, { do: 'win' })
  await deliverCase(id, till.mpUserId)
  const left = await refund(service, till, orderId)
  expect([left.statusCode, left.json().code]).toEqual([409, 'ORDER_NOT_REFUNDABLE'])
  expect(await providerRequests(service, { method: 'POST', path: '/refund$' })).toHaveLength(1)
})

test.each([
  ['order', {}],
  [
    'payment of an order that is still processed',
    { status: 'processed', status_detail: 'accredited' },
  ],
])(
  'a sale of which only the read before its refund shows the charge-back is not refunded (%s)',
  async (name, shown) => {
    const { till, orderId, mpOrderId } = await withSale(`shown ${name}`)
    const { id } = await dispute({ order_id: mpOrderId, webhooks: 'none' })
    await sandboxCall(service, 'PUT', `/_sandbox/orders/${mpOrderId}/shown`, shown)
    await forgetRequests(service)
    const refused = await refund(service, till, orderId)
    expect(await providerRequests(service, { method: 'POST', path: '/refund$' })).toEqual([])
    expect([refused.statusCode, refused.json().code]).toEqual([409, 'ORDER_NOT_REFUNDABLE'])
    expect(refused.json()).toMatchObject({ outcome: 'charged', retry_safe: false })
    expect(refused.json().error).toContain('charge-back')
    // A won case that is stored here ends the refusal.
    await decide(id, { do: 'win', webhooks: 'none' })
    await deliverCase(id, till.mpUserId)
    await refund(service, till, orderId)
    expect(await providerRequests(service, { method: 'POST', path: '/refund$' })).toHaveLength(1)
  },
)

test('a sale is not refunded while the order names a second case, although the first is won', async () => {
  const { till, orderId, mpOrderId } = await withSale('second case')
  const won = await dispute({ order_id: mpOrderId })
  await decide(won.id, { do: 'win' })
  await deliverCase(won.id, till.mpUserId)
  await showCases(mpOrderId, [won.id, '217000999'])
  await forgetRequests(service)
  const refused = await refund(service, till, orderId)
  expect([refused.statusCode, refused.json().error]).toEqual([
    409,
    expect.stringContaining('charge-back'),
  ])
  expect(await providerRequests(service, { method: 'POST', path: '/refund$' })).toEqual([])
})

test('a charge-back that arrives between the read and the intent of a refund refuses it', async () => {
  const { till, orderId, mpOrderId } = await withSale('between')
  const { orders } = service.deps.provider
  const { get } = orders
  onTestFinished(() => {
    orders.get = get
  })
  orders.get = async (...args) => {
    orders.get = get
    const shown = await get(...args)
    const { id } = await dispute({ order_id: mpOrderId, webhooks: 'none' })
    await deliverCase(id, till.mpUserId)
    return shown
  }
  await forgetRequests(service)
  const refused = await refund(service, till, orderId)
  expect([refused.statusCode, refused.json().error]).toEqual([
    409,
    expect.stringContaining('charge-back'),
  ])
  expect(await providerRequests(service, { method: 'POST', path: '/refund$' })).toEqual([])
})

test('a payment without an order that only the read before its refund shows as charged back is not refunded', async () => {
  const till = await openOwnShop(service, 'loose and shown')
  await sell(service, till, 'A-1')
  const typed = await typeCharge(service, till)
  await watchAfter(service, 5 * 60_000)
  const [orphan] = (await call(service, { url: '/orphans', token: till.key })).json().orphans
  await dispute({ payment_id: Number(typed), webhooks: 'none' })
  await forgetRequests(service)
  const answer = await call(service, {
    url: `/orphans/${orphan.id}/refund`,
    token: till.key,
    body: { reason: 'dos veces' },
  })
  expect(await providerRequests(service, { method: 'POST', path: '/refunds$' })).toEqual([])
  expect([answer.statusCode, answer.json().code]).toEqual([409, 'ORDER_NOT_REFUNDABLE'])
  expect(answer.json().error).toContain('charge-back')
})

test.each(['webhook of the case', 'webhook of the order', 'watch'])(
  'a case that names payments of two clients of one account is stored for both (%s)',
  { tags: ['long'] },
  async (how) => {
    const first = await withSale(`first client by ${how}`)
    const { till, orderId, paymentId } = await saleOfAnotherClient(
      `second client by ${how}`,
      first.till.mpUserId,
    )
    const before = await dispute({ order_id: first.mpOrderId, webhooks: 'none' })
    await decide(before.id, {
      do: 'documentation',
      webhooks: 'none',
      odd: { payments: [...before.payments, paymentId] },
    })
    if (how === 'webhook of the case') await deliverCase(before.id, till.mpUserId)
    else if (how === 'webhook of the order') await deliverOrder(first.mpOrderId)
    else await catchUp()
    for (const one of [
      { till: first.till, orderId: first.orderId },
      { till, orderId },
    ]) {
      expect(await listOf(one.till)).toMatchObject({
        total: 1,
        chargebacks: [{ case_id: before.id, state: 'open', order_id: one.orderId }],
      })
      await forgetRequests(service)
      const refused = await refund(service, one.till, one.orderId)
      expect([refused.statusCode, refused.json().code]).toEqual([409, 'ORDER_NOT_REFUNDABLE'])
      expect(await providerRequests(service, { method: 'POST', path: '/refund$' })).toEqual([])
    }
  },
)

test('a case is stored for the second client of an account although the first cannot be asked', {
  tags: ['long'],
}, async () => {
  const first = await withSale('first client, not connected')
  const { till, paymentId } = await saleOfAnotherClient(
    'second client, connected',
    first.till.mpUserId,
  )
  const { id } = await dispute({
    order_id: first.mpOrderId,
    webhooks: 'none',
    odd: { payments: [paymentId] },
  })
  const { chargebacks } = service.deps.provider
  const { get } = chargebacks
  onTestFinished(() => {
    chargebacks.get = get
  })
  let calls = 0
  chargebacks.get = async (...args) => {
    calls += 1
    if (calls === 1) throw new Error('not readable for the first client')
    return get(...args)
  }
  await deliverCase(id, till.mpUserId)
  expect((await listOf(till)).total).toBe(1)
})

test('of a case that names several payments none can be refunded', async () => {
  const { till, orderId, mpOrderId } = await withSale('several payments')
  const second = await sell(service, till, 'A-2')
  await watchAfter(service, 5 * 60_000)
  const { payments } = await orderRow(service, second)
  const before = await dispute({ order_id: mpOrderId })
  await decide(before.id, {
    do: 'documentation',
    odd: { payments: [...before.payments, Number(payments[0]?.referenceId)] },
  })
  await deliverCase(before.id, till.mpUserId)
  for (const disputed of [orderId, second]) {
    const refused = await refund(service, till, disputed)
    expect([refused.statusCode, refused.json().code]).toEqual([409, 'ORDER_NOT_REFUNDABLE'])
    expect(refused.json().error).toContain('charge-back')
  }
})

test('a case that names two sales of a shop is one case, and both follow its decision', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'one case of two')
  const orders = [await sell(service, till, 'A-1'), await sell(service, till, 'A-2')]
  await service.paymentWatch.watchOnce()
  service.clock.advance(20 * dayMs)
  const opened: Case[] = []
  for (const orderId of orders) {
    const { mp_order_id } = await orderRow(service, orderId)
    opened.push(await dispute({ order_id: mp_order_id, webhooks: 'none' }))
  }
  const [one] = opened as [Case, Case]
  const odd = { payments: opened.flatMap(({ payments }) => payments) }
  await decide(one.id, { do: 'documentation', webhooks: 'none', odd })
  const { chargebacks } = service.deps.provider
  const { search } = chargebacks
  onTestFinished(() => {
    chargebacks.search = search
  })
  chargebacks.search = async () => [one.id]
  await catchUp()
  await catchUp()
  const list = await listOf(till)
  expect(list).toMatchObject({ total: 1, chargebacks: [{ case_id: one.id, state: 'open' }] })
  const found = await actionsOf(till.client)
  await catchUp()
  expect(await actionsOf(till.client)).toEqual(found)
  await decide(one.id, { do: 'win', webhooks: 'none' })
  await watchAfter(service, dayMs)
  await catchUp()
  expect(await listOf(till)).toMatchObject({
    total: 1,
    chargebacks: [{ id: list.chargebacks[0].id, state: 'won' }],
  })
  for (const orderId of orders) {
    const { mp_order_id } = await orderRow(service, orderId)
    await showCases(String(mp_order_id), [one.id])
    expect((await refund(service, till, orderId)).json().error).not.toContain('charge-back')
  }
})

test('the decision of a case is stored whichever of its payments it was found by', async () => {
  const { till, orderId, mpOrderId } = await withSale('found by the second')
  const other = await sell(service, till, 'A-2')
  await watchAfter(service, 5 * 60_000)
  const [first, second] = [await orderRow(service, orderId), await orderRow(service, other)].map(
    ({ payments }) => Number(payments[0]?.referenceId),
  )
  const { id } = await dispute({ order_id: mpOrderId, odd: { payments: [second, first] } })
  await deliverCase(id, till.mpUserId)
  await decide(id, { do: 'lose', odd: { payments: [first, second] } })
  await deliverCase(id, till.mpUserId)
  expect(await listOf(till)).toMatchObject({
    total: 1,
    chargebacks: [{ state: 'lost', payment_id: String(second), order_id: other }],
  })
})

test('the refund of a disputed payment without an order is refused too', async () => {
  const till = await openOwnShop(service, 'no loose refund')
  await sell(service, till, 'A-1')
  const typed = await typeCharge(service, till)
  await watchAfter(service, 5 * 60_000)
  const [orphan] = (await call(service, { url: '/orphans', token: till.key })).json().orphans
  const { id } = await dispute({ payment_id: Number(typed) })
  await deliverCase(id, till.mpUserId)
  await forgetRequests(service)
  const answer = await call(service, {
    url: `/orphans/${orphan.id}/refund`,
    token: till.key,
    body: { reason: 'dos veces' },
  })
  expect([answer.statusCode, answer.json().code]).toEqual([409, 'ORDER_NOT_REFUNDABLE'])
  expect(await providerRequests(service, { method: 'POST', path: '/refunds$' })).toEqual([])
})

test.each([undefined, 'win', 'lose'])(
  'a signed closing stays as it was signed when a sale is disputed later (%s)',
  async (decision) => {
    const till = await openOwnShop(service, `closing ${decision}`)
    const orderId = await sell(service, till, 'A-1')
    const before = await close(service, till)
    expect(before.state).toBe('agreed')
    const signed = await call(service, {
      method: 'POST',
      url: `/closings/${before.id}/sign`,
      token: till.key,
      body: {},
    })
    expect(signed.statusCode, signed.body).toBe(200)
    const { mp_order_id } = await orderRow(service, orderId)
    const { id } = await dispute({ order_id: mp_order_id })
    if (decision) await decide(id, { do: decision })
    await catchUp()
    expect(await readClosing(service, till, before.id)).toMatchObject(signed.json())
  },
)

test.each([undefined, 'win', 'lose'])(
  'a day whose sale is disputed before its closing agrees (%s)',
  async (decision) => {
    const till = await openOwnShop(service, `late closing ${decision}`)
    const orderId = await sell(service, till, 'A-1')
    const { mp_order_id } = await orderRow(service, orderId)
    const { id } = await dispute({ order_id: mp_order_id })
    if (decision) await decide(id, { do: decision })
    await deliverOrder(String(mp_order_id))
    const { id: closingId } = (await openClosing(service, till)).json()
    await watchAfter(service, 61_000)
    expect(await readClosing(service, till, closingId)).toMatchObject({
      state: 'agreed',
      lines: [],
      totals: { here: { count: 1 }, there: { count: 1 } },
    })
  },
)

test('the overview counts undecided cases with the next deadline, for a client and for all', {
  tags: ['long'],
}, async () => {
  const { till, mpOrderId } = await withSale('overview')
  const overview = async () =>
    (
      await call(service, {
        url: `/overview?from=${new Date(service.clock.now().getTime() - dayMs).toISOString()}`,
        token: till.key,
      })
    ).json().chargebacks
  expect(await overview()).toEqual({ undecided: 0, documents_due_at: null })
  const { id } = await dispute({ order_id: mpOrderId })
  await deliverCase(id, till.mpUserId)
  const { undecided, documents_due_at: dueAt } = await overview()
  expect(undecided).toBe(1)
  expect(Date.parse(dueAt)).toBeGreaterThan(service.clock.now().getTime())
  await decide(id, { do: 'lose' })
  await deliverCase(id, till.mpUserId)
  expect(await overview()).toEqual({ undecided: 0, documents_due_at: null })
  const another = await withSale('overview of another')
  await deliverCase((await dispute({ order_id: another.mpOrderId })).id, another.till.mpUserId)
  expect(await overview()).toEqual({ undecided: 0, documents_due_at: null })
  const all = (await asAdmin(service, { url: '/chargebacks?limit=200' })).json()
  const clients = all.chargebacks.map((one: { client: string }) => one.client)
  expect(clients).toEqual(expect.arrayContaining([till.client, another.till.client]))
})

test('the list of charge-backs has pages', async () => {
  const till = await openOwnShop(service, 'pages')
  for (const number of [1, 2, 3]) {
    const orderId = await sell(service, till, `P-${number}`)
    const { mp_order_id } = await orderRow(service, orderId)
    await dispute({ order_id: mp_order_id })
    await deliverOrder(String(mp_order_id))
  }
  const first = await listOf(till, '?limit=2')
  const second = await listOf(till, '?limit=2&offset=2')
  expect([first.total, first.chargebacks.length, second.chargebacks.length]).toEqual([3, 2, 1])
  const ids = [...first.chargebacks, ...second.chargebacks].map(({ id }: Case) => id)
  expect(new Set(ids).size).toBe(3)
  expect((await listOf(till, '?caja_id=OTHER')).total).toBe(0)
})

// The last test: a watch over so many days takes long.
test('the webhook of the order finds the case of a sale that is too old to be read', async () => {
  const { till, orderId, mpOrderId } = await withSale('too old')
  service.clock.advance(100 * dayMs)
  const { id } = await dispute({ order_id: mpOrderId })
  await deliverOrder(mpOrderId)
  expect(await listOf(till)).toMatchObject({
    total: 1,
    chargebacks: [{ state: 'open', case_id: id, order_id: orderId }],
  })
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status: 'processed',
    outcome: 'charged',
  })
  expect(await logsOf(mpOrderId)).toContain('processed')
})
