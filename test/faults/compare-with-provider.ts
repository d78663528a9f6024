import type { LedgerOrder } from '../../sandbox/ledger.ts'
import type { OrderStatus } from '../../src/domain/order.ts'
import { canMove, isClosedUnpaid } from '../../src/domain/order-state.ts'
import {
  listOperations,
  type OrderOperationRow,
} from '../../src/repositories/orders/order-operations.ts'
import type { OrderRow } from '../../src/repositories/orders/order-queries.ts'
import type { listOrderEvents } from '../../src/repositories/orders/timeline-queries.ts'
import { type ProviderRequest, providerRequests } from '../support/money.ts'
import { foreignOrdersOf, ordersOf, type Sale, type SimulatedTill } from './simulated-till.ts'
import type { Testbed } from './testbed.ts'

const cents = (amount: unknown) => Math.round(Number(amount ?? 0) * 100)

const isPaid = (providerOrder: LedgerOrder) => providerOrder.paid_amount !== null

/** The service relies on the provider to know a key for this time. */
const keyMemoryMs = 23 * 3600_000

const isKeyForgotten = (till: SimulatedTill, since: Date) =>
  till.testbed.clock.now().getTime() - since.getTime() > keyMemoryMs

/** Money that the shop received for this order. */
const receivedCents = (till: SimulatedTill, providerOrder: LedgerOrder) =>
  isPaid(providerOrder)
    ? (till.received.get(providerOrder.id) ?? cents(providerOrder.paid_amount))
    : 0

/** Money of this order that the shop keeps after all refunds. */
const netCents = (till: SimulatedTill, providerOrder: LedgerOrder) =>
  receivedCents(till, providerOrder) - cents(providerOrder.refunded_amount)

/** Rows of the service about all tills of a run. */
type Written = {
  rows: OrderRow[]
  operations: OrderOperationRow[]
  events: Pick<OrderEvent, 'order_id' | 'from_status' | 'to_status' | 'version'>[]
  audit: { action: string; resource_id: string | null }[]
}

type OrderEvent = Awaited<ReturnType<typeof listOrderEvents>>[number]

/**
 * Compares the answers to the tills and the rows of the service with the provider's orders and refunds. Only the provider's
 * are the truth about money. Call it after a time without faults. Adds each difference to the problems of its till.
 */
export async function compareWithProvider(
  testbed: Testbed,
  tills: readonly SimulatedTill[],
): Promise<void> {
  const written = await readWritten(testbed, tills)
  const creations = tills.some((till) => till.acceptedCancels.length > 0)
    ? await providerRequests(testbed.services[0], { path: '^/v1/orders$', method: 'POST' })
    : []
  for (const till of tills) {
    const isOwn = (row: OrderRow) =>
      row.client === till.shop.client &&
      till.sales.some((sale) => sale.reference === row.external_reference)
    const rows = written.rows.filter(isOwn)
    const ids = new Set(rows.map((row) => row.id))
    const operations = written.operations.filter((operation) => ids.has(operation.order_id))
    const providerOrders = ordersOf(till)
    const wrong = (text: string) => till.problems.push(text)
    compareOrders(till, rows, operations, written.events, providerOrders, wrong)
    checkForeignOrders(till, rows, wrong)
    for (const sale of till.sales) checkSale(till, sale, rows, providerOrders, wrong)
    checkAcceptedCancels(till, creations, wrong)
    checkReportedOutcomes(till, rows, providerOrders, wrong)
    const isReversed = (orderId: string, from: OrderStatus, to: OrderStatus) => {
      const row = rows.find(({ id }) => id === orderId)
      if (from === 'failed') return row?.reopened_at != null
      const providerOrder = providerOrders.find(({ id }) => id === row?.mp_order_id)
      const hasFailed = providerOrder?.refunds.some((refund) => refund.status === 'failed') ?? false
      return hasFailed && refundedStates.has(from) && paidStates.has(to)
    }
    checkHistory(
      written.events.filter((event) => ids.has(event.order_id)),
      isReversed,
      wrong,
    )
    if (till.isRestored) continue
    checkAuditLog(
      rows,
      operations,
      written.audit.filter((entry) => ids.has(entry.resource_id ?? '')),
      wrong,
    )
  }
}

async function readWritten(testbed: Testbed, tills: readonly SimulatedTill[]): Promise<Written> {
  const { db } = testbed.database
  const references = tills.flatMap((till) => till.sales.map((sale) => sale.reference))
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
const mayStandForOurs = (till: SimulatedTill, id: string) =>
  till.panelRefunds.has(id) && till.scenario !== 'an equal refund of the panel'

/** Every order and refund on one side is on the other, with the same state and the same money. */
function compareOrders(
  till: SimulatedTill,
  rows: OrderRow[],
  operations: OrderOperationRow[],
  events: Written['events'],
  providerOrders: LedgerOrder[],
  wrong: Report,
): void {
  for (const providerOrder of providerOrders) {
    const row = rows.find((each) => each.mp_order_id === providerOrder.id)
    if (!row) {
      if (isLeftToPerson(till, rows, providerOrder.id)) continue
      // Nothing shows an unpaid order of before the restore that its till did not repeat.
      if (till.isRestored && !isPaid(providerOrder)) continue
      wrong(`lost order: the provider's ${providerOrder.id} is no order of ours`)
    } else {
      const history = events.filter(({ order_id }) => order_id === row.id)
      compareOrder(till, row, history, providerOrder, wrong)
    }
  }
  for (const row of rows) {
    // When the provider knows its key no more it stays unknown, and the operator is notified; the provider must not have it.
    const isForgotten = isKeyForgotten(till, row.created_at)
    // An equal order of another application, or one made too late, leaves it to a person.
    const unproven = [
      ...till.foreign,
      ...(isTooLate(till) ? providerOrders.map(({ id }) => id) : []),
    ]
    const isUnproven = unproven.some((id) => row.conflict?.includes(id))
    const isLeftOpen = isForgotten || isUnproven
    if (row.creation === 'intent' || (row.creation === 'unknown' && !isLeftOpen)) {
      wrong(`order ${row.id} is still ${row.creation}`)
    }
    if (
      row.mp_order_id !== null &&
      !providerOrders.some((providerOrder) => providerOrder.id === row.mp_order_id)
    ) {
      wrong(`order ${row.id} is not among the provider's orders`)
    }
    const isContradictory = till.contradictory.has(row.mp_order_id ?? '')
    if (row.conflict !== null && !isContradictory && !isUnproven)
      wrong(`order ${row.id} has a conflict: ${row.conflict}`)
  }
  // No proof which refund it was: the list before it could not be read, or the provider knows its key no more.
  // A person sees those that may be it.
  const unclear = operations.filter(
    ({ state, provider_code, refunds_before, created_at }) =>
      state === 'unknown' &&
      provider_code === 'refund_unclear' &&
      (refunds_before === null || isKeyForgotten(till, created_at)),
  )
  for (const { id, kind, state, order_id } of operations) {
    const mpOrderId = rows.find((row) => row.id === order_id)?.mp_order_id ?? ''
    const providerOrder = providerOrders.find((each) => each.id === mpOrderId)
    // A requested cancel ends when the terminal decides.
    const isRequested = kind === 'cancel' && providerOrder?.status === 'at_terminal'
    if (isRequested || till.contradictory.has(mpOrderId) || unclear.some((one) => one.id === id))
      continue
    if (state === 'intent' || state === 'unknown') wrong(`${kind} ${id} is still ${state}`)
  }
  const leftToPerson = unclear.flatMap(({ possible_refunds: possible }) => possible ?? [])
  const made = providerOrders
    .flatMap((providerOrder) => providerOrder.refunds)
    .filter((refund) => !leftToPerson.some(({ id }) => id === String(refund.id)))
    // A failed refund returned no money.
    .filter((refund) => refund.status !== 'failed' && !till.panelRefunds.has(String(refund.id)))
  const settled = operations.filter(({ kind, state }) => kind === 'refund' && state === 'done')
  const [theirs, ours] = [
    made.map((refund) => String(refund.id)).sort(),
    settled.map((operation) => String(operation.mp_refund_id)).sort(),
  ]
  const isRight = till.isRestored
    ? ours.every((id) => theirs.includes(id))
    : // One that was made in the panel may stand for an equal one of ours, which the provider then refuses.
      JSON.stringify(theirs) ===
      JSON.stringify(ours.filter((id) => theirs.includes(id) || !mayStandForOurs(till, id)))
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

const isTooLate = (till: SimulatedTill) => till.scenario === 'an attempt that arrives too late'

/** An order that the provider made after ours had expired is not proven to be ours. The conflict of our order names it. */
function isLeftToPerson(
  till: SimulatedTill,
  rows: readonly OrderRow[],
  mpOrderId: string,
): boolean {
  const isNamed = rows.some(
    (row) => row.creation === 'refused' && row.conflict?.includes(mpOrderId),
  )
  return isTooLate(till) && isNamed
}

/** What another application has at the provider is never ours, and we never move its money. */
function checkForeignOrders(till: SimulatedTill, rows: readonly OrderRow[], wrong: Report): void {
  for (const { id, refunded_amount } of foreignOrdersOf(till)) {
    if (rows.some((row) => row.mp_order_id === id)) wrong(`another application's ${id} is ours`)
    if (cents(refunded_amount) > 0) wrong(`another application's ${id} was refunded`)
  }
}

function compareOrder(
  till: SimulatedTill,
  row: OrderRow,
  history: Written['events'],
  providerOrder: LedgerOrder,
  wrong: Report,
): void {
  const hasRefund = cents(providerOrder.refunded_amount) > 0
  const isPartly = hasRefund && netCents(till, providerOrder) > 0
  const isSale = providerOrder.status === 'processed' || providerOrder.status === 'charged_back'
  // An order with a second payment stays processed there when all of the first one is refunded.
  const ofRefunded = isPartly ? 'partially_refunded' : 'refunded'
  const ofSale = hasRefund ? ofRefunded : 'processed'
  const status = isSale ? ofSale : providerOrder.status
  const isForced = till.forced.has(providerOrder.id)
  if (isForced && !till.hasWebhooks) return
  if (till.contradictory.has(providerOrder.id)) return
  const lists = [
    row.refunds.map(({ id }) => id).sort(),
    providerOrder.refunds.map(({ id }) => String(id)).sort(),
  ]
  if (JSON.stringify(lists[0]) !== JSON.stringify(lists[1])) {
    wrong(`order ${row.id} lists the refunds ${lists[0]} here, ${lists[1]} there`)
  }
  const sides = [
    ['amount', row.amount_cents, cents(providerOrder.amount)],
    ['paid', row.paid_cents, receivedCents(till, providerOrder)],
    ['refunded', row.refunded_cents, cents(providerOrder.refunded_amount)],
    ['terminal', row.terminal_id, providerOrder.terminal_id],
    // An order that the backup lacks gets a new number.
    ...(till.isRestored ? [] : [['key', row.id, providerOrder.idempotency_key] as const]),
    // An order that was closed before it was paid keeps its status and gets the flag.
    ...(row.paid_after_close ? [] : [['status', row.status, status] as const]),
  ] as const
  for (const [name, ours, theirs] of sides) {
    if (ours !== theirs) wrong(`${name} of order ${row.id}: ${ours} here, ${theirs} there`)
  }
  // A scenario may make such money without force.
  const isFlagRight = till.scenario
    ? isPaid(providerOrder) || !isForced
    : row.paid_after_close === (isForced && couldKnowOfClose(till, row.id, history))
  if (!isFlagRight) {
    wrong(`order ${row.id} has paid_after_close ${row.paid_after_close}`)
  }
  if (cents(providerOrder.refunded_amount) > cents(providerOrder.paid_amount)) {
    wrong(`more was refunded than paid: ${providerOrder.id}`)
  }
}

/**
 * Whether the service knew that the order was closed when the provider took money for it: its history shows the close, or an
 * answer to the till reported it. A payment after a close that no answer of the provider showed is like any other; no flag is due.
 */
export function couldKnowOfClose(
  till: Pick<SimulatedTill, 'reportedClosed'>,
  orderId: string,
  history: readonly { to_status: string | null }[],
): boolean {
  const isRecorded = history.some(
    ({ to_status }) => to_status !== null && isClosedUnpaid(to_status as OrderStatus),
  )
  return isRecorded || till.reportedClosed.has(orderId)
}

function checkSale(
  till: SimulatedTill,
  sale: Sale,
  rows: OrderRow[],
  providerOrders: LedgerOrder[],
  wrong: Report,
): void {
  const own = rows.filter((row) => row.external_reference === sale.reference)
  const providerOrderOf = (orderId: string) => {
    const row = own.find((each) => each.id === orderId)
    return providerOrders.find((providerOrder) => providerOrder.id === row?.mp_order_id)
  }
  const paid = own
    .map((row) => providerOrderOf(row.id))
    .filter(
      (providerOrder) =>
        providerOrder && isPaid(providerOrder) && !till.forced.has(providerOrder.id),
    )
  if (sale.denial) {
    const { what, before } = sale.denial
    for (const row of own) {
      const providerOrder = providerOrderOf(row.id)
      if (!providerOrder || before.has(providerOrder.id) || till.forced.has(providerOrder.id))
        continue
      const isOpen = ['created', 'at_terminal'].includes(providerOrder.status)
      if (isOpen || (netCents(till, providerOrder) > 0 && !row.paid_after_close)) {
        wrong(`${what} said not_charged, and ${providerOrder.id} became ${providerOrder.status}`)
      }
    }
  }
  if (paid.length > 1)
    wrong(`double charge: ${paid.map((providerOrder) => providerOrder?.id).join(' and ')}`)
  for (const [key, orders] of sale.ordersByKey) {
    if (orders.size > 1) wrong(`key ${key} made several orders: ${[...orders].join(', ')}`)
  }
  for (const orderId of sale.canceled) {
    const providerOrder = providerOrderOf(orderId)
    if (
      providerOrder &&
      providerOrder.status !== 'canceled' &&
      !till.forced.has(providerOrder.id)
    ) {
      wrong(`canceled order ${orderId} is ${providerOrder.status} at the provider`)
    }
  }
  for (const orderId of sale.openCancels) {
    if (providerOrderOf(orderId)?.status === 'created') {
      wrong(`order ${orderId} was canceled and still waits at the terminal`)
    }
  }
  checkRefunds(till, sale, providerOrderOf, wrong)
}

/**
 * The provider has each refund that the till asked for once, or not at all if it was refused. A refund that the provider took
 * and failed later counts as made. One made in the panel may stand for an equal one that was reported as done, and for no
 * other.
 */
function checkRefunds(
  till: SimulatedTill,
  sale: Sale,
  providerOrderOf: (orderId: string) => LedgerOrder | undefined,
  wrong: Report,
): void {
  const left = new Map<string, { cents: number; isSpare: boolean }[]>()
  for (const { orderId } of sale.refunds) {
    const isOlder = (id: string) => till.panelRefunds.has(id) && !mayStandForOurs(till, id)
    const refunds = (providerOrderOf(orderId)?.refunds ?? [])
      .filter(({ id }) => !isOlder(String(id)))
      .map(({ id, amount, status }) => ({
        cents: cents(amount),
        isSpare: status === 'failed' || mayStandForOurs(till, String(id)),
      }))
      .sort((a, b) => Number(a.isSpare) - Number(b.isSpare))
    left.set(orderId, refunds)
  }
  const byCertainty = ['done', 'unknown', 'refused']
  // Those with an amount first: the total one is then the rest. Of equal ones those that were certainly made.
  for (const refund of sale.refunds.toSorted(
    (a, b) =>
      (b.amountCents ?? 0) - (a.amountCents ?? 0) ||
      byCertainty.indexOf(a.reported) - byCertainty.indexOf(b.reported),
  )) {
    const made = left.get(refund.orderId) ?? []
    const at = made.findIndex(
      ({ cents, isSpare }) =>
        (refund.amountCents === null || cents === refund.amountCents) &&
        (refund.reported !== 'refused' || !isSpare),
    )
    const name = `refund of ${refund.amountCents ?? 'all'} on ${refund.orderId}`
    if (at >= 0) {
      made.splice(at, 1)
      if (refund.reported === 'refused') wrong(`${name} was refused, and the provider made it`)
    } else if (refund.reported === 'done') {
      wrong(`lost ${name}: reported as done, not at the provider`)
    }
  }
  for (const [orderId, refunds] of left) {
    const doubled = refunds.filter(({ isSpare }) => !isSpare)
    if (doubled.length > 0) {
      wrong(`doubled refund on ${orderId}: ${doubled.map((refund) => refund.cents)} too many`)
    }
  }
}

function checkReportedOutcomes(
  till: SimulatedTill,
  rows: OrderRow[],
  providerOrders: LedgerOrder[],
  wrong: Report,
): void {
  for (const { orderId, outcome, what, refundedBefore } of till.reportedOutcomes) {
    const row = rows.find((each) => each.id === orderId)
    const providerOrder = providerOrders.find((each) => each.id === row?.mp_order_id)
    if (!row) wrong(`${what} named an order that is not there: ${orderId}`)
    if (
      providerOrder &&
      (till.forced.has(providerOrder.id) || till.contradictory.has(providerOrder.id))
    )
      continue
    if (outcome === 'charged' && !(providerOrder && isPaid(providerOrder))) {
      wrong(`${what} said charged, and the provider never charged ${orderId}`)
    }
    if (
      outcome === 'charged' &&
      providerOrder &&
      refundedBefore.has(providerOrder.id) &&
      netCents(till, providerOrder) === 0
    ) {
      wrong(`${what} said charged, and all of ${orderId} had been refunded`)
    }
    const isOpen =
      providerOrder && ['created', 'at_terminal', 'action_required'].includes(providerOrder.status)
    // A call that arrives later than the promised time may be flagged.
    const isFlaggedLate = isTooLate(till) && row?.paid_after_close
    if (
      outcome === 'not_charged' &&
      providerOrder &&
      !isFlaggedLate &&
      (netCents(till, providerOrder) > 0 || isOpen)
    ) {
      wrong(`${what} said not_charged, and ${orderId} is ${providerOrder.status} at the provider`)
    }
  }
}

/** After an answer reported that an order is canceled, or will be, no request is sent that could create it. */
function checkAcceptedCancels(
  till: SimulatedTill,
  creations: ProviderRequest[],
  wrong: Report,
): void {
  for (const { orderId, after } of till.acceptedCancels) {
    const sent = creations.find(
      ({ seq, headers, fault }) =>
        seq > after && headers['x-idempotency-key'] === orderId && fault !== 'arrived_late',
    )
    if (sent) wrong(`order ${orderId} was canceled, and sent again (request ${sent.seq})`)
  }
}

const refundedStates: ReadonlySet<string> = new Set(['refunded', 'partially_refunded'])
const paidStates: ReadonlySet<string> = new Set(['processed', 'partially_refunded'])

/**
 * The transitions of each order follow the table, one version after the other. Two final states may change: of an order that
 * is found after it counted as refused, and of a refund that fails later.
 */
function checkHistory(
  events: Written['events'],
  isReversed: (orderId: string, from: OrderStatus, to: OrderStatus) => boolean,
  wrong: Report,
): void {
  const versions = new Map<string, number>()
  for (const { order_id, from_status, to_status, version } of events) {
    const [from, to] = [from_status as OrderStatus, to_status as OrderStatus]
    if (from_status === null) {
      // An order that was found at the provider begins with the state that it had there.
      versions.set(order_id, version)
      continue
    }
    if (from !== to && !canMove(from, to) && !isReversed(order_id, from, to))
      wrong(`order ${order_id} went from ${from} to ${to}`)
    if (version !== (versions.get(order_id) ?? 1) + 1) {
      wrong(`order ${order_id} skips to version ${version}`)
    }
    versions.set(order_id, version)
  }
}

/** The audit log has each successful operation once. */
function checkAuditLog(
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
