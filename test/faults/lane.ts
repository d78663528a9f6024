import { request } from 'undici'
import type { LedgerOrder } from '../../src/sandbox/ledger.ts'
import { sandboxCall } from '../support/till.ts'
import type { Draw } from './draw.ts'
import type { Shop, World } from './world.ts'

export type Answer =
  /** The till has no answer: it gave up waiting, or the connection broke. */
  { kind: 'lost' } | { kind: 'answered'; status: number; body: Record<string, unknown> }

/** A money answer that names its order: a promise that the provider's books must keep. */
export type Claim = { orderId: string; outcome: 'charged' | 'not_charged'; what: string }

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
  /** Every webhook arrives, and in time: late money is found by nothing else. */
  hasWebhooks: boolean
}

export type Sending = {
  label: string
  path: string
  body?: object
  key?: string | undefined
  /** The till gives up after this many milliseconds. */
  giveUpMs?: number | undefined
}

const documented = new Set([200, 201, 409, 422, 429, 502, 503, 504])

/** Sends one request of the till to one of the two processes and notes what it was told. */
export async function send(lane: Lane, sending: Sending): Promise<Answer> {
  const { world, shop, draw } = lane
  const { label, path, body, key, giveUpMs } = sending
  const url = draw.pick(`${label} process`, world.urls) + path
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
  note(lane, sending, answer)
  return answer
}

function note(lane: Lane, { label, path, key, body: sent }: Sending, answer: Answer): void {
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
    lane.claims.push({ orderId: order_id, outcome, what })
  }
}

/** The order that the terminal of this lane holds at the provider. */
export function onTerminal(lane: Lane): LedgerOrder | undefined {
  return ordersOf(lane).find((order) => ['created', 'at_terminal'].includes(order.status))
}

export function ordersOf(lane: Lane): LedgerOrder[] {
  return lane.world.books(lane.bookStart).filter((order) => order.user_id === lane.shop.mpUserId)
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
