import type { OrderStatus } from '../../src/domain/order.ts'
import { canMove, isClosedUnpaid } from '../../src/domain/order-state.ts'
import {
  listOperations,
  type OrderOperationRow,
} from '../../src/repositories/orders/order-operations.ts'
import type { OrderRow } from '../../src/repositories/orders/order-queries.ts'
import type { listOrderEvents } from '../../src/repositories/orders/timeline-queries.ts'
import type { LedgerOrder } from '../../src/sandbox/ledger.ts'
import { type ProviderRequest, providerRequests } from '../support/money.ts'
import { foreignOrdersOf, type Lane, ordersOf, type Sale } from './lane.ts'
import type { World } from './world.ts'

const cents = (amount: unknown) => Math.round(Number(amount ?? 0) * 100)

const isPaid = (book: LedgerOrder) => book.paid_amount !== null

/** As long as the service relies on the provider's memory of a key. */
const keyMemoryMs = 23 * 3600_000

const isKeyForgotten = (lane: Lane, since: Date) =>
  lane.world.clock.now().getTime() - since.getTime() > keyMemoryMs

/** Money that the shop received for this order. */
const receivedCents = (lane: Lane, book: LedgerOrder) =>
  isPaid(book) ? (lane.received.get(book.id) ?? cents(book.paid_amount)) : 0

/** Money that the shop has of this order in the end. */
const netCents = (lane: Lane, book: LedgerOrder) =>
  receivedCents(lane, book) - cents(book.refunded_amount)

/** What the service has written about a run, whoever's it is. */
type Written = {
  rows: OrderRow[]
  operations: OrderOperationRow[]
  events: Pick<OrderEvent, 'order_id' | 'from_status' | 'to_status' | 'version'>[]
  audit: { action: string; resource_id: string | null }[]
}

type OrderEvent = Awaited<ReturnType<typeof listOrderEvents>>[number]

/**
 * Compares what the tills were told and what the service has written with the provider's books, which are the only
 * truth about money. Call it after a quiet time without faults. Adds what is wrong to the problems of each lane.
 */
export async function judge(world: World, lanes: readonly Lane[]): Promise<void> {
  const written = await readWritten(world, lanes)
  const creations = lanes.some((lane) => lane.wishes.length > 0)
    ? await providerRequests(world.services[0], { path: '^/v1/orders$', method: 'POST' })
    : []
  for (const lane of lanes) {
    const isOwn = (row: OrderRow) =>
      row.client === lane.shop.client &&
      lane.sales.some((sale) => sale.reference === row.external_reference)
    const rows = written.rows.filter(isOwn)
    const ids = new Set(rows.map((row) => row.id))
    const operations = written.operations.filter((operation) => ids.has(operation.order_id))
    const books = ordersOf(lane)
    const wrong = (text: string) => lane.problems.push(text)
    compareBooks(lane, rows, operations, written.events, books, wrong)
    judgeForeign(lane, rows, wrong)
    for (const sale of lane.sales) judgeSale(lane, sale, rows, books, wrong)
    judgeWishes(lane, creations, wrong)
    judgeClaims(lane, rows, books, wrong)
    const isReversed = (orderId: string, from: OrderStatus, to: OrderStatus) => {
      const row = rows.find(({ id }) => id === orderId)
      if (from === 'failed') return row?.reopened_at != null
      const book = books.find(({ id }) => id === row?.mp_order_id)
      const hasFailed = book?.refunds.some((refund) => refund.status === 'failed') ?? false
      return hasFailed && givenBack.has(from) && paid.has(to)
    }
    judgeHistory(
      written.events.filter((event) => ids.has(event.order_id)),
      isReversed,
      wrong,
    )
    if (lane.isRestored) continue
    judgeAudit(
      rows,
      operations,
      written.audit.filter((entry) => ids.has(entry.resource_id ?? '')),
      wrong,
    )
  }
}

async function readWritten(world: World, lanes: readonly Lane[]): Promise<Written> {
  const { db } = world.database
  const references = lanes.flatMap((lane) => lane.sales.map((sale) => sale.reference))
  const rows = await db
    .selectFrom('orders')
    .selectAll()
    .where('external_reference', 'in', references)
    .execute()
  if (rows.length === 0) return { rows, operations: [], events: [], audit: [] }
  const ids = rows.map((row) => row.id)
  return {
    rows,
    operations: await listOperations(db, ids),
    events: await db
      .selectFrom('order_events')
      .select(['order_id', 'from_status', 'to_status', 'version'])
      .where('order_id', 'in', ids)
      .orderBy('id')
      .execute(),
    audit: await db
      .selectFrom('activity_log')
      .select(['action', 'resource_id'])
      .where('status', '=', 'success')
      .where('resource_id', 'in', ids)
      .execute(),
  }
}

type Report = (text: string) => void

/** A refund of the panel that is older than each of ours proves nothing about them. */
const mayStandForOurs = (lane: Lane, id: string) =>
  lane.panelRefunds.has(id) && lane.aim !== 'an equal refund of the panel'

/** Every order and refund on one side is on the other, with the same state and the same money. */
function compareBooks(
  lane: Lane,
  rows: OrderRow[],
  operations: OrderOperationRow[],
  events: Written['events'],
  books: LedgerOrder[],
  wrong: Report,
): void {
  for (const book of books) {
    const row = rows.find((each) => each.mp_order_id === book.id)
    if (!row) {
      if (isLeftToPerson(lane, rows, book.id)) continue
      wrong(`lost order: the provider's ${book.id} is no order of ours`)
    } else {
      const history = events.filter(({ order_id }) => order_id === row.id)
      compareOrder(lane, row, history, book, wrong)
    }
  }
  for (const row of rows) {
    // Past the provider's memory of its key it stays unknown, and the operator is told; it must not be in the books.
    const isForgotten = isKeyForgotten(lane, row.created_at)
    // An equal order of another application, or one made too late, leaves it to a person.
    const unproven = [...lane.foreign, ...(isTooLate(lane) ? books.map(({ id }) => id) : [])]
    const isUnproven = unproven.some((id) => row.conflict?.includes(id))
    const isLeftOpen = isForgotten || isUnproven
    if (row.creation === 'intent' || (row.creation === 'unknown' && !isLeftOpen)) {
      wrong(`order ${row.id} is still ${row.creation}`)
    }
    if (row.mp_order_id !== null && !books.some((book) => book.id === row.mp_order_id)) {
      wrong(`order ${row.id} is not in the provider's books`)
    }
    const isStrange = lane.strange.has(row.mp_order_id ?? '')
    if (row.conflict !== null && !isStrange && !isUnproven)
      wrong(`order ${row.id} has a conflict: ${row.conflict}`)
  }
  // Nothing proves which refund it was where the list before it could not be read, or past the provider's memory of its key:
  // a person is shown those that may be it.
  const unclear = operations.filter(
    ({ state, provider_code, refunds_before, created_at }) =>
      state === 'unknown' &&
      provider_code === 'refund_unclear' &&
      (refunds_before === null || isKeyForgotten(lane, created_at)),
  )
  for (const { id, kind, state, order_id } of operations) {
    const mpOrderId = rows.find((row) => row.id === order_id)?.mp_order_id ?? ''
    const book = books.find((each) => each.id === mpOrderId)
    // A requested cancel ends when the terminal decides.
    const isRequested = kind === 'cancel' && book?.status === 'at_terminal'
    if (isRequested || lane.strange.has(mpOrderId) || unclear.some((one) => one.id === id)) continue
    if (state === 'intent' || state === 'unknown') wrong(`${kind} ${id} is still ${state}`)
  }
  const leftToPerson = unclear.flatMap(({ possible_refunds: possible }) => possible ?? [])
  const made = books
    .flatMap((book) => book.refunds)
    .filter((refund) => !leftToPerson.some(({ id }) => id === String(refund.id)))
    // One that failed is none in the end.
    .filter((refund) => refund.status !== 'failed' && !lane.panelRefunds.has(String(refund.id)))
  const settled = operations.filter(({ kind, state }) => kind === 'refund' && state === 'done')
  const [theirs, ours] = [
    made.map((refund) => String(refund.id)).sort(),
    settled.map((operation) => String(operation.mp_refund_id)).sort(),
  ]
  const isRight = lane.isRestored
    ? ours.every((id) => theirs.includes(id))
    : // One that was made in the panel may stand for an equal one of ours, which the provider then refuses.
      JSON.stringify(theirs) ===
      JSON.stringify(ours.filter((id) => theirs.includes(id) || !mayStandForOurs(lane, id)))
  if (!isRight) {
    wrong(`refunds differ: the provider made ${theirs}, we have settled ${ours}`)
  }
  for (const operation of settled) {
    const refund = made.find(({ id }) => id === operation.mp_refund_id)
    if (refund && cents(refund.amount) !== operation.amount_cents) {
      wrong(`refund ${refund.id} is ${operation.amount_cents} here, ${refund.amount} there`)
    }
  }
}

const isTooLate = (lane: Lane) => lane.aim === 'an attempt that arrives after all hope'

/** An order that the provider made after ours had expired is not proven to be ours: a person finds it named with ours. */
function isLeftToPerson(lane: Lane, rows: readonly OrderRow[], mpOrderId: string): boolean {
  const isNamed = rows.some(
    (row) => row.creation === 'refused' && row.conflict?.includes(mpOrderId),
  )
  return isTooLate(lane) && isNamed
}

/** What another application has at the provider is never ours, and we never move its money. */
function judgeForeign(lane: Lane, rows: readonly OrderRow[], wrong: Report): void {
  for (const { id, refunded_amount } of foreignOrdersOf(lane)) {
    if (rows.some((row) => row.mp_order_id === id)) wrong(`another application's ${id} is ours`)
    if (cents(refunded_amount) > 0) wrong(`another application's ${id} was given back`)
  }
}

function compareOrder(
  lane: Lane,
  row: OrderRow,
  history: Written['events'],
  book: LedgerOrder,
  wrong: Report,
): void {
  const isGivenBack = cents(book.refunded_amount) > 0
  const isPartly = isGivenBack && netCents(lane, book) > 0
  const isSale = book.status === 'processed' || book.status === 'charged_back'
  // An order with a second payment stays processed there when all of the first one is given back.
  const ofRefunded = isPartly ? 'partially_refunded' : 'refunded'
  const ofSale = isGivenBack ? ofRefunded : 'processed'
  const status = isSale ? ofSale : book.status
  const isForced = lane.forced.has(book.id)
  if (isForced && !lane.hasWebhooks) return
  if (lane.strange.has(book.id)) return
  const lists = [
    row.refunds.map(({ id }) => id).sort(),
    book.refunds.map(({ id }) => String(id)).sort(),
  ]
  if (JSON.stringify(lists[0]) !== JSON.stringify(lists[1])) {
    wrong(`order ${row.id} lists the refunds ${lists[0]} here, ${lists[1]} there`)
  }
  const sides = [
    ['amount', row.amount_cents, cents(book.amount)],
    ['paid', row.paid_cents, receivedCents(lane, book)],
    ['refunded', row.refunded_cents, cents(book.refunded_amount)],
    ['terminal', row.terminal_id, book.terminal_id],
    // An order that a backup forgot gets a number of its own.
    ...(lane.isRestored ? [] : [['key', row.id, book.idempotency_key] as const]),
    // What was closed before it was paid keeps its end, and the flag beside it.
    ...(row.paid_after_close ? [] : [['status', row.status, status] as const]),
  ] as const
  for (const [name, ours, theirs] of sides) {
    if (ours !== theirs) wrong(`${name} of order ${row.id}: ${ours} here, ${theirs} there`)
  }
  // Who aims may make such money without force.
  const isFlagRight = lane.aim
    ? isPaid(book) || !isForced
    : row.paid_after_close === (isForced && couldKnowOfClose(lane, row.id, history))
  if (!isFlagRight) {
    wrong(`order ${row.id} has paid_after_close ${row.paid_after_close}`)
  }
  if (cents(book.refunded_amount) > cents(book.paid_amount)) {
    wrong(`more was given back than paid: ${book.id}`)
  }
}

/**
 * Whether the service knew that the order was closed when the provider took money for it after all: it has written so, or has
 * told its till. A close that no answer of the provider ever showed it looks like any payment, and needs no flag.
 */
export function couldKnowOfClose(
  lane: Pick<Lane, 'toldClosed'>,
  orderId: string,
  history: readonly { to_status: string | null }[],
): boolean {
  const hasSeen = history.some(
    ({ to_status }) => to_status !== null && isClosedUnpaid(to_status as OrderStatus),
  )
  return hasSeen || lane.toldClosed.has(orderId)
}

function judgeSale(
  lane: Lane,
  sale: Sale,
  rows: OrderRow[],
  books: LedgerOrder[],
  wrong: Report,
): void {
  const own = rows.filter((row) => row.external_reference === sale.reference)
  const booksOf = (orderId: string) => {
    const row = own.find((each) => each.id === orderId)
    return books.find((book) => book.id === row?.mp_order_id)
  }
  const paid = own
    .map((row) => booksOf(row.id))
    .filter((book) => book && isPaid(book) && !lane.forced.has(book.id))
  if (sale.denial) {
    const { what, before } = sale.denial
    for (const row of own) {
      const book = booksOf(row.id)
      if (!book || before.has(book.id) || lane.forced.has(book.id)) continue
      const isOpen = ['created', 'at_terminal'].includes(book.status)
      if (isOpen || (netCents(lane, book) > 0 && !row.paid_after_close)) {
        wrong(`${what} said not_charged, and ${book.id} became ${book.status}`)
      }
    }
  }
  if (paid.length > 1) wrong(`double charge: ${paid.map((book) => book?.id).join(' and ')}`)
  for (const [key, orders] of sale.ordersByKey) {
    if (orders.size > 1) wrong(`key ${key} made several orders: ${[...orders].join(', ')}`)
  }
  for (const orderId of sale.canceled) {
    const book = booksOf(orderId)
    if (book && book.status !== 'canceled' && !lane.forced.has(book.id)) {
      wrong(`canceled order ${orderId} is ${book.status} at the provider`)
    }
  }
  for (const orderId of sale.cancelWished) {
    if (booksOf(orderId)?.status === 'created') {
      wrong(`order ${orderId} was given up and still waits at the terminal`)
    }
  }
  judgeRefunds(lane, sale, booksOf, wrong)
}

/**
 * Each refund that the till asked for is in the books once, or not at all if it was refused. What the provider took and
 * failed later was made, too, and what the panel made may stand for an equal one: it answers for one that was told done,
 * and for nothing else.
 */
function judgeRefunds(
  lane: Lane,
  sale: Sale,
  booksOf: (orderId: string) => LedgerOrder | undefined,
  wrong: Report,
): void {
  const left = new Map<string, { cents: number; isSpare: boolean }[]>()
  for (const { orderId } of sale.refunds) {
    const isOlder = (id: string) => lane.panelRefunds.has(id) && !mayStandForOurs(lane, id)
    const refunds = (booksOf(orderId)?.refunds ?? [])
      .filter(({ id }) => !isOlder(String(id)))
      .map(({ id, amount, status }) => ({
        cents: cents(amount),
        isSpare: status === 'failed' || mayStandForOurs(lane, String(id)),
      }))
      .sort((a, b) => Number(a.isSpare) - Number(b.isSpare))
    left.set(orderId, refunds)
  }
  const told = ['done', 'unknown', 'refused']
  // Those with an amount first: what remains then is the total one. Of equal ones those that were made for certain.
  for (const refund of sale.refunds.toSorted(
    (a, b) =>
      (b.amountCents ?? 0) - (a.amountCents ?? 0) || told.indexOf(a.told) - told.indexOf(b.told),
  )) {
    const made = left.get(refund.orderId) ?? []
    const at = made.findIndex(
      ({ cents, isSpare }) =>
        (refund.amountCents === null || cents === refund.amountCents) &&
        (refund.told !== 'refused' || !isSpare),
    )
    const name = `refund of ${refund.amountCents ?? 'all'} on ${refund.orderId}`
    if (at >= 0) {
      made.splice(at, 1)
      if (refund.told === 'refused') wrong(`${name} was refused, and the provider made it`)
    } else if (refund.told === 'done') {
      wrong(`lost ${name}: told done, not in the books`)
    }
  }
  for (const [orderId, refunds] of left) {
    const doubled = refunds.filter(({ isSpare }) => !isSpare)
    if (doubled.length > 0) {
      wrong(`doubled refund on ${orderId}: ${doubled.map((refund) => refund.cents)} too many`)
    }
  }
}

function judgeClaims(lane: Lane, rows: OrderRow[], books: LedgerOrder[], wrong: Report): void {
  for (const { orderId, outcome, what, givenBack } of lane.claims) {
    const row = rows.find((each) => each.id === orderId)
    const book = books.find((each) => each.id === row?.mp_order_id)
    if (!row) wrong(`${what} named an order that is not there: ${orderId}`)
    if (book && (lane.forced.has(book.id) || lane.strange.has(book.id))) continue
    if (outcome === 'charged' && !(book && isPaid(book))) {
      wrong(`${what} said charged, and the provider never charged ${orderId}`)
    }
    if (outcome === 'charged' && book && givenBack.has(book.id) && netCents(lane, book) === 0) {
      wrong(`${what} said charged, and all of ${orderId} had been given back`)
    }
    const isOpen = book && ['created', 'at_terminal', 'action_required'].includes(book.status)
    // What arrives later than any call is promised to: it may be flagged.
    const isHopeless = isTooLate(lane) && row?.paid_after_close
    if (outcome === 'not_charged' && book && !isHopeless && (netCents(lane, book) > 0 || isOpen)) {
      wrong(`${what} said not_charged, and ${orderId} is ${book.status} at the provider`)
    }
  }
}

/** After a till was told that its order is canceled, or will be, nothing is sent that could still create it. */
function judgeWishes(lane: Lane, creations: ProviderRequest[], wrong: Report): void {
  for (const { orderId, after } of lane.wishes) {
    const sent = creations.find(
      ({ seq, headers, fault }) =>
        seq > after && headers['x-idempotency-key'] === orderId && fault !== 'arrived_late',
    )
    if (sent) wrong(`order ${orderId} was given up, and sent again (request ${sent.seq})`)
  }
}

const givenBack: ReadonlySet<string> = new Set(['refunded', 'partially_refunded'])
const paid: ReadonlySet<string> = new Set(['processed', 'partially_refunded'])

/**
 * Each order's moves follow the table, one version after the other. Two ends are none: of an order that shows up after it
 * counted as refused, and of a refund that fails later.
 */
function judgeHistory(
  events: Written['events'],
  isReversed: (orderId: string, from: OrderStatus, to: OrderStatus) => boolean,
  wrong: Report,
): void {
  const versions = new Map<string, number>()
  for (const { order_id, from_status, to_status, version } of events) {
    const [from, to] = [from_status as OrderStatus, to_status as OrderStatus]
    if (from_status === null) {
      // An order that was taken in begins with the state that it had.
      versions.set(order_id, version)
      continue
    }
    if (from !== to && !canMove(from, to) && !isReversed(order_id, from, to))
      wrong(`order ${order_id} went from ${from} to ${to}`)
    if (version !== (versions.get(order_id) ?? 1) + 1) {
      wrong(`order ${order_id} jumped to version ${version}`)
    }
    versions.set(order_id, version)
  }
}

/** What was done is in the audit log, once. */
function judgeAudit(
  rows: OrderRow[],
  operations: OrderOperationRow[],
  entries: Written['audit'],
  wrong: Report,
): void {
  const logged = entries
    .filter(({ action }) => action !== 'order.settled')
    .map((entry) => `${entry.action} ${entry.resource_id}`)
    .sort()
  const done = [
    ...rows.filter((row) => row.creation === 'confirmed').map((row) => `order.created ${row.id}`),
    ...operations
      .filter((operation) => operation.state === 'done')
      .map((operation) => {
        return `order.${operation.kind === 'cancel' ? 'canceled' : 'refunded'} ${operation.order_id}`
      }),
  ].sort()
  if (JSON.stringify(logged) !== JSON.stringify(done)) {
    wrong(`the audit log has ${logged.join(', ')} and not ${done.join(', ')}`)
  }
}
