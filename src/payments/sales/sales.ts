import type { ClientName } from '../../domain/client-name.ts'
import { addCents, negated, type StoredSum } from '../../domain/money.ts'
import type { StoresSeen } from '../../domain/permissions.ts'
import { isProblem } from '../../fleet/health-states.ts'
import {
  type BoxSales,
  type ClosedPlace,
  listAttemptsByGroup,
  listAttemptsByStore,
  listClosedPlaces,
  listNamedBoxes,
  listPaymentsRead,
  listSalesByBox,
  listSalesByGroup,
  type RecordedSales,
  type SalesGroup,
} from '../../repositories/sales/sales-queries.ts'
import type { PaymentDeps } from '../deps.ts'

/** The figures of `RecordedSales`. */
export type SalesFigures = Record<(typeof counts)[number], number> &
  Record<(typeof sums)[number], StoredSum>

type ClosingProgress = ClosedPlace['state'] | 'none'

type SalesOfBox = SalesFigures & {
  /** Null for payments that name the store only. */
  boxId: string | null
  name: string | null
  closing: ClosingProgress
  hasProblem: boolean
}

export type SalesOfStore = SalesFigures & {
  client: ClientName
  storeId: string
  name: string | null
  /** Sorted as people count: 2 before 10. */
  boxes: SalesOfBox[]
}

export type Sales = {
  total: SalesFigures
  stores: SalesOfStore[]
  /** Until when the provider's payments have been read for every client with sales; null when one was never read. */
  readUntil: Date | null
}

/** So many boxes are named; of the others the sales count all the same. */
const mostBoxes = 2_000

const byNumber = new Intl.Collator('es', { numeric: true })

/**
 * Sales of a span by store and box, by the records of both sides, with what is closed and which boxes have a problem. Read from
 * what is stored: the provider is not asked.
 */
export async function readSales(
  deps: PaymentDeps,
  span: { client: ClientName | undefined; stores: StoresSeen; from: Date; to: Date },
): Promise<Sales> {
  const { db } = deps.database
  const { client, stores: seen } = span
  const [sold, named, closed, reads, fleet] = await Promise.all([
    listSalesByBox(db, span),
    listNamedBoxes(db, { client, stores: seen }, mostBoxes),
    listClosedPlaces(db, span),
    listPaymentsRead(db, client),
    deps.fleet.read(client),
  ])
  const problems = new Set(
    fleet.boxes.filter(isProblem).map((box) => keyOf(box.client, box.sucursalId, box.cajaId)),
  )
  const closings = new Map(
    closed.map(({ client, storeId, boxId, state }) => [keyOf(client, storeId, boxId), state]),
  )
  const stores = new Map<string, SalesOfStore>()
  const storeOf = ({ client, storeId }: { client: ClientName; storeId: string }) => {
    const key = keyOf(client, storeId)
    const store = stores.get(key) ?? { client, storeId, name: null, boxes: [], ...noSales() }
    stores.set(key, store)
    return store
  }
  const soldBy = new Map(sold.map((box) => [keyOf(box.client, box.storeId, box.boxId), box]))
  const addBox = (
    place: { client: ClientName; storeId: string; boxId: string | null },
    name: string | null,
  ) => {
    const key = keyOf(place.client, place.storeId, place.boxId)
    const store = storeOf(place)
    const own = soldBy.get(key)
    soldBy.delete(key)
    store.boxes.push({
      boxId: place.boxId,
      name,
      closing:
        closings.get(key) ?? closings.get(keyOf(place.client, place.storeId, null)) ?? 'none',
      hasProblem: problems.has(key),
      ...figuresOf(own),
    })
    return store
  }
  for (const box of named) addBox(box, box.boxName).name = box.storeName
  // Boxes that were removed or renamed meanwhile, and payments without a box.
  for (const box of [...soldBy.values()]) addBox(box, null)
  const all = [...stores.values()]
  for (const store of all) {
    store.boxes.sort((a, b) => byNumber.compare(a.boxId ?? '', b.boxId ?? ''))
    Object.assign(store, sumOf(store.boxes))
  }
  all.sort((a, b) => byNumber.compare(a.client, b.client) || byNumber.compare(a.storeId, b.storeId))
  return { total: sumOf(all), stores: all, readUntil: readUntilOf(sold, reads) }
}

type SalesOfGroup = SalesFigures & {
  key: string
  /** Set by store. */
  client?: ClientName
  /** The store's; null for one that is not in use any more. */
  name?: string | null
  orders: number
  /** Orders that failed with a payment tried. */
  declined: number
}

/**
 * Sales of a span by day, week or method of payment, by the records of both sides; the same figures as `readSales`, and the orders
 * and declines of the statistics.
 */
export async function readSalesByGroup(
  deps: PaymentDeps,
  span: { client: ClientName | undefined; stores: StoresSeen; from: Date; to: Date },
  group: SalesGroup,
  timeZone: string,
): Promise<{ total: Omit<SalesOfGroup, 'key'>; groups: SalesOfGroup[] }> {
  const { db } = deps.database
  const [sold, tried] = await Promise.all([
    listSalesByGroup(db, span, group, timeZone),
    listAttemptsByGroup(db, span, group, timeZone),
  ])
  const soldBy = new Map(sold.map((one) => [one.key, one]))
  const triedBy = new Map(tried.map((one) => [one.key, one]))
  const groups = [...new Set([...soldBy.keys(), ...triedBy.keys()])].toSorted().map((key) => ({
    key,
    orders: triedBy.get(key)?.orders ?? 0,
    declined: triedBy.get(key)?.declined ?? 0,
    ...figuresOf(soldBy.get(key)),
  }))
  return { total: { ...tries(groups), ...sumOf(groups) }, groups }
}

function tries(groups: readonly { orders: number; declined: number }[]) {
  const sum = (of: 'orders' | 'declined') => groups.reduce((all, one) => all + one[of], 0)
  return { orders: sum('orders'), declined: sum('declined') }
}

/** The same by store, as `readSales` has them, with those that are in use and sold nothing. */
export async function readSalesByStore(
  deps: PaymentDeps,
  span: { client: ClientName | undefined; stores: StoresSeen; from: Date; to: Date },
): Promise<{ total: Omit<SalesOfGroup, 'key'>; groups: SalesOfGroup[] }> {
  const [{ total, stores }, tried] = await Promise.all([
    readSales(deps, span),
    listAttemptsByStore(deps.database.db, span),
  ])
  const triedBy = new Map(tried.map((one) => [keyOf(one.client, one.storeId), one]))
  const known = new Set(stores.map(({ client, storeId }) => keyOf(client, storeId)))
  const soldBy = stores.map(({ storeId, ...store }) => ({ key: storeId, ...store }))
  const unsold = tried
    .filter(({ client, storeId }) => !known.has(keyOf(client, storeId)))
    .map(({ client, storeId }) => ({ key: storeId, client, name: null, ...noSales() }))
  const groups = [...soldBy, ...unsold].map((one) => {
    const { orders = 0, declined = 0 } = triedBy.get(keyOf(one.client, one.key)) ?? {}
    return { ...one, orders, declined }
  })
  return { total: { ...tries(groups), ...total }, groups }
}

/** What the provider says less what is recorded here, without what its list cannot have yet. */
export function differenceOf({ paymentCents, paidCents, unreadCents }: SalesFigures): StoredSum {
  return addCents(addCents(paymentCents, negated(paidCents)), unreadCents)
}

function readUntilOf(
  sold: readonly BoxSales[],
  reads: readonly { client: ClientName; until: Date }[],
): Date | null {
  const untilOf = new Map(reads.map(({ client, until }) => [client, until]))
  const clients = new Set(sold.filter(({ paid }) => paid > 0).map(({ client }) => client))
  if (clients.size === 0) return earliest(reads.map(({ until }) => until))
  const untils = [...clients].map((client) => untilOf.get(client))
  return untils.includes(undefined) ? null : earliest(untils as Date[])
}

function earliest(times: readonly Date[]): Date | null {
  return times.reduce<Date | null>((least, at) => (least === null || at < least ? at : least), null)
}

function keyOf(...parts: (string | null)[]): string {
  return JSON.stringify(parts)
}

const counts = ['paid', 'unread', 'payments', 'withoutAmount', 'netOrders'] as const
const sums = [
  'paidCents',
  'refundedCents',
  'unreadCents',
  'paymentCents',
  'paymentRefundedCents',
  'feeCents',
] as const

function noSales(): SalesFigures {
  return figuresOf(undefined)
}

function figuresOf(row: RecordedSales | undefined): SalesFigures {
  return sumOf(row ? [row] : [])
}

function sumOf(rows: readonly (SalesFigures | RecordedSales)[]): SalesFigures {
  const figures = {} as SalesFigures
  for (const name of counts) figures[name] = rows.reduce((sum, row) => sum + row[name], 0)
  for (const name of sums) {
    figures[name] = rows.reduce<StoredSum>((sum, row) => addCents(sum, row[name]), 0)
  }
  return figures
}
