import { request } from 'undici'
import type { LedgerOrder } from '../../src/sandbox/ledger.ts'
import { sandboxCall } from '../support/till.ts'
import type { Draw } from './draw.ts'
import type { ScopedRule } from './fault-plan.ts'
import { type Snag, withSnag } from './snags.ts'
import type { Shop, World } from './world.ts'

export type Answer =
  /** The till has no answer: it gave up waiting, or the connection broke. */
  { kind: 'lost' } | { kind: 'answered'; status: number; body: Record<string, unknown> }

/** A money answer that names its order: a promise that the provider's books must keep. */
export type Claim = {
  orderId: string
  outcome: 'charged' | 'not_charged'
  what: string
  /** Orders at the provider of which nothing was left when the request began. */
  givenBack: ReadonlySet<string>
}

/** A cancel that a till was told will be done, and the number of the provider's last request before the answer. */
export type Wish = { orderId: string; after: number }

/** The last answer to a charge: nothing was charged. `before`: the orders that the provider had then. */
export type Denial = { what: string; before: ReadonlySet<string> }

export type LogicalRefund = {
  orderId: string
  /** Cents; null for all that was left. */
  amountCents: number | null
  /** What the till was told in the end. */
  told: 'done' | 'refused' | 'unknown'
}

export type Sale = {
  reference: string
  amountCents: number
  /** The order that the till was told of last. */
  lastOrderId: string | undefined
  /** Answers by Idempotency-Key: one key is one order, for ever. */
  ordersByKey: Map<string, Set<string>>
  refunds: LogicalRefund[]
  /** Orders whose cancel was answered 200, and those whose cancel is still unknown. */
  canceled: Set<string>
  cancelWished: Set<string>
  denial: Denial | undefined
}

/** One till on its own box, with everything it was told. */
export type Lane = {
  world: World
  shop: Shop
  draw: Draw
  /** Number of the first order in the provider's books that belongs to this run. */
  bookStart: number
  sales: Sale[]
  claims: Claim[]
  problems: string[]
  history: string[]
  /** Orders that the provider was made to take money for although they were closed. */
  forced: Set<string>
  /** Orders of ours among them of which a till had been told before that they are closed, or charge nothing. */
  toldClosed: Set<string>
  /** Every webhook arrives, and in time: late money is found by nothing else. */
  hasWebhooks: boolean
  /** What this schedule aims at; absent: at nothing. */
  aim?: string
  /** A backup was restored in the midst of it. */
  isRestored?: boolean
  /** The buyer pays whatever comes to the terminal, at once. */
  isEager?: boolean
  /** Orders whose answers contradict the books. */
  strange: Set<string>
  /** Orders of another application with the content of ours. */
  foreign: Set<string>
  /** What the shop receives of an order, in cents, where the buyer paid more to the card issuer. */
  received: Map<string, number>
  /** Refunds made in the provider's panel. */
  panelRefunds: Set<string>
  wishes: Wish[]
}

/** A till that has asked for nothing yet. */
export function newLane(lane: Pick<Lane, 'world' | 'shop' | 'draw'> & Partial<Lane>): Lane {
  return {
    bookStart: 0,
    sales: [],
    claims: [],
    problems: [],
    history: [],
    forced: new Set(),
    toldClosed: new Set(),
    hasWebhooks: true,
    strange: new Set(),
    foreign: new Set(),
    received: new Map(),
    panelRefunds: new Set(),
    wishes: [],
    ...lane,
  }
}

/** The till begins a sale. */
export function openSale(lane: Lane, reference: string, amountCents: number): Sale {
  const sale: Sale = {
    reference,
    amountCents,
    lastOrderId: undefined,
    ordersByKey: new Map(),
    refunds: [],
    canceled: new Set(),
    cancelWished: new Set(),
    denial: undefined,
  }
  lane.sales.push(sale)
  return sale
}

export type Sending = {
  label: string
  path: string
  body?: object
  key?: string | undefined
  /** The till gives up after this many milliseconds. */
  giveUpMs?: number | undefined
  /** Asks the process that meets trouble in its own house, with this one; absent: one of the two others. */
  snag?: Snag
}

const documented = new Set([200, 201, 202, 409, 422, 429, 502, 503, 504])

/** Sends one request of the till to one of the two processes and notes what it was told. */
export async function send(lane: Lane, sending: Sending): Promise<Answer> {
  const { world, shop, draw } = lane
  const { label, path, body, key, giveUpMs } = sending
  if (sending.snag) return sendSnagged(lane, sending, sending.snag)
  const url = draw.pick(`${label} process`, world.urls) + path
  const givenBack = fullyGivenBack(lane)
  let answer: Answer
  try {
    const response = await request(url, {
      method: body === undefined ? 'GET' : 'POST',
      dispatcher: world.agent,
      headers: {
        'x-api-token': shop.key,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(key !== undefined && { 'idempotency-key': key }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(giveUpMs !== undefined && { signal: AbortSignal.timeout(giveUpMs) }),
    })
    const given = (await response.body.json()) as Record<string, unknown>
    answer = { kind: 'answered', status: response.statusCode, body: given }
  } catch {
    answer = { kind: 'lost' }
  }
  note(lane, sending, answer, givenBack)
  return answer
}

async function sendSnagged(lane: Lane, sending: Sending, snag: Snag): Promise<Answer> {
  const { path, body, key } = sending
  const givenBack = fullyGivenBack(lane)
  const response = await withSnag(snag, async () =>
    lane.world.victim.app.inject({
      method: body === undefined ? 'GET' : 'POST',
      url: path,
      headers: {
        'x-api-token': lane.shop.key,
        ...(key !== undefined && { 'idempotency-key': key }),
      },
      ...(body !== undefined && { payload: body }),
    }),
  )
  const answer: Answer = {
    kind: 'answered',
    status: response.statusCode,
    body: response.json(),
  }
  note(lane, sending, answer, givenBack)
  return answer
}

function fullyGivenBack(lane: Lane): ReadonlySet<string> {
  const orders = ordersOf(lane).filter(({ status, refunds }) => {
    return (
      status === 'refunded' && !refunds.some((refund) => lane.panelRefunds.has(String(refund.id)))
    )
  })
  return new Set(orders.map(({ id }) => id))
}

function note(
  lane: Lane,
  { label, path, key, body: sent }: Sending,
  answer: Answer,
  givenBack: ReadonlySet<string>,
): void {
  const what = `${label}: ${path}${key === undefined ? '' : ` key ${key}`}`
  if (answer.kind === 'lost') {
    lane.history.push(`${what} -> no answer`)
    return
  }
  const { status, body } = answer
  const { code, order_id, outcome, retry_safe, status: state, error } = body
  lane.history.push(
    `${what} -> ${status} ${JSON.stringify({ code, order_id, status: state, outcome, retry_safe })}`,
  )
  if (!documented.has(status)) lane.problems.push(`${what} answered ${status} ${String(error)}`)
  if (sent && status >= 400 && (typeof retry_safe !== 'boolean' || outcome === undefined)) {
    lane.problems.push(`${what} answered ${status} without saying whether money moved`)
  }
  if (typeof order_id !== 'string') return
  if (outcome === 'charged' || outcome === 'not_charged') {
    lane.claims.push({ orderId: order_id, outcome, what, givenBack })
  }
}

/** The order that the terminal of this lane holds at the provider. */
export function onTerminal(lane: Lane): LedgerOrder | undefined {
  return ordersOf(lane).find((order) => ['created', 'at_terminal'].includes(order.status))
}

export function ordersOf(lane: Lane): LedgerOrder[] {
  return lane.world
    .books(lane.bookStart)
    .filter(
      (order) =>
        order.user_id === lane.shop.mpUserId &&
        !order.external_reference.startsWith(foreign) &&
        !lane.foreign.has(order.id),
    )
}

/** How references begin that are of another application and equal none of ours. */
const foreign = 'FOREIGN'

/** An order of another application takes the terminal, if it is free. Answers its id. */
export async function takeTerminal(lane: Lane): Promise<string | undefined> {
  return placeForeign(lane, `${foreign}-${lane.history.length}`, 7_700)
}

/** The same with this reference and amount, in cents. */
export async function placeForeign(
  lane: Lane,
  reference: string,
  amountCents: number,
): Promise<string | undefined> {
  const { world, shop } = lane
  const order = {
    type: 'point',
    external_reference: reference,
    transactions: { payments: [{ amount: (amountCents / 100).toFixed(2) }] },
    config: { point: { terminal_id: shop.terminalId } },
  }
  const placed = (await sandboxCall(world.services[0], 'POST', '/_sandbox/orders', order).catch(
    () => undefined,
  )) as { id: string } | undefined
  if (placed) lane.foreign.add(placed.id)
  lane.history.push(`another application's order ${placed?.id ?? 'does not fit'} on the terminal`)
  return placed?.id
}

export function foreignOrdersOf(lane: Lane): LedgerOrder[] {
  return lane.world.books(lane.bookStart).filter(({ id }) => lane.foreign.has(id))
}

/** Whatever another application has on the terminal leaves it. */
export async function leaveTerminal(lane: Lane): Promise<void> {
  for (const order of foreignOrdersOf(lane)) {
    if (!['created', 'at_terminal'].includes(order.status)) continue
    await buyer(lane, order, { do: 'panel_cancel' })
  }
}

/** From now on the provider treats this account so, besides the rules that hold already. */
export async function arm(lane: Lane, ...rules: Omit<ScopedRule, 'user_id'>[]): Promise<void> {
  for (const rule of rules) lane.history.push(`rule: ${JSON.stringify(rule)}`)
  await sandboxCall(
    lane.world.services[0],
    'POST',
    '/_sandbox/faults',
    rules.map((rule) => ({ ...rule, user_id: lane.shop.mpUserId })),
  )
}

/** The provider treats this account well again. */
export async function heal(lane: Lane): Promise<void> {
  lane.history.push('healed')
  const path = `/_sandbox/faults?user_id=${lane.shop.mpUserId}`
  await sandboxCall(lane.world.services[0], 'DELETE', path)
}

/** Number of the last request that reached the provider. */
export async function lastRequest(lane: Lane): Promise<number> {
  const { requests } = (await sandboxCall(
    lane.world.services[0],
    'GET',
    '/_sandbox/requests?last=1',
  )) as { requests: { seq: number }[] }
  return requests.at(-1)?.seq ?? 0
}

/** The buyer, or the clerk at the device, does something. The provider may refuse: the order may have moved on. */
export async function buyer(lane: Lane, order: LedgerOrder, action: object): Promise<void> {
  const done = await sandboxCall(
    lane.world.services[0],
    'POST',
    `/_sandbox/orders/${order.id}/act`,
    action,
  ).then(
    () => 'done',
    () => 'not possible',
  )
  lane.history.push(`buyer: ${JSON.stringify(action)} on ${order.id} -> ${done}`)
}
