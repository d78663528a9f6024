import type { ClientName } from '../../domain/client-name.ts'
import { addCents, negated, type StoredSum } from '../../domain/money.ts'
import { isProblem } from '../../fleet/states.ts'
import {
  type BoxSales,
  type ClosedPlace,
  listClosedPlaces,
  listNamedBoxes,
  listPaymentsRead,
  listSalesByBox,
} from '../../repositories/sales/sales-queries.ts'
import type { PaymentDeps } from '../deps.ts'

/** Sales by both records. Sums are in cents. */
export type SalesFigures = {
  /** Orders whose money came in, be it given back later or not. */
  paid: number
  paidCents: StoredSum
  refundedCents: StoredSum
  /** Those of them that the provider's list cannot have yet. */
  unread: number
  unreadCents: StoredSum
  /** Payments of the provider. */
  payments: number
  paymentCents: StoredSum
  paymentRefundedCents: StoredSum
  /** Payments whose amount cannot be read; they count as 0. */
  withoutAmount: number
  /** Orders whose net is known, and what Mercado Pago keeps of them. */
  netOrders: number
  feeCents: StoredSum
}

export type ClosingProgress = ClosedPlace['state'] | 'none'

export type SalesOfBox = SalesFigures & {
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
  span: { client: ClientName | undefined; from: Date; to: Date },
): Promise<Sales> {
  const { db } = deps.database
  const { client } = span
  const [sold, named, closed, reads, fleet] = await Promise.all([
    listSalesByBox(db, span),
    listNamedBoxes(db, client, mostBoxes),
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

function figuresOf(row: BoxSales | undefined): SalesFigures {
  return sumOf(row ? [row] : [])
}

type Addable = Record<(typeof counts)[number], number> &
  Record<(typeof sums)[number], StoredSum | bigint>

function sumOf(rows: readonly Addable[]): SalesFigures {
  const figures = {} as SalesFigures
  for (const name of counts) figures[name] = rows.reduce((sum, row) => sum + row[name], 0)
  for (const name of sums) {
    figures[name] = rows.reduce<StoredSum>((sum, row) => addCents(sum, row[name]), 0)
  }
  return figures
}
