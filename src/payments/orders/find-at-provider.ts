import type { OrderEvidence } from '../../domain/order.ts'
import { isEncodedReference } from '../../domain/provider-names.ts'
import { type FoundOrder, ProviderError } from '../../provider/provider.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import { aboutOrder, withAccess } from '../connection/access.ts'
import type { PaymentDeps } from '../deps.ts'
import type { EvidenceSource, RequestContext } from '../request-context.ts'
import { keepNextCheck, moveOrder } from './state.ts'
import { isAbout } from './state-from-provider.ts'

export type Found = {
  evidence: OrderEvidence | undefined
  /** The provider answered, and has no order with our reference, of any application. */
  isAbsent: boolean
  /** Orders of the same content that are not proven to be this one: a person must check them. */
  unproven: string[]
}

/** Clocks differ between here and the provider. */
export const clockMarginMs = 2 * 60_000

/** Without a measured clock, ours counts. */
type FitDeps = Pick<PaymentDeps, 'settings'> & Partial<Pick<PaymentDeps, 'providerClock'>>

type Fit =
  | 'ours'
  /** Same content, but made at another time, by another application, or by one that is not named. */
  | 'unproven'
  | 'other'

/**
 * Whether an order at the provider is the one that this row requested. Equal content proves nothing: another program on the
 * account may charge the same sale under the same reference. The order must also be made by our application, for a terminal and
 * after our first attempt. It must be made before the order expires, or before the last moment at which an attempt can arrive.
 * Without a named application, only a reference in this service's encoding proves it. `doubtfulAt` is an attempt that the row may
 * not contain yet.
 */
export function fitOf(
  deps: FitDeps,
  order: OrderRow,
  { evidence, isOurs, isPoint, createdAt }: FoundOrder,
  { isKeyTaken = false, doubtfulAt = null }: SearchHints = {},
): Fit {
  const isEqual =
    isAbout(order, evidence) &&
    evidence.externalReference === order.mp_external_reference &&
    evidence.amountCents === order.amount_cents &&
    (isKeyTaken || evidence.terminalId === order.terminal_id)
  if (!isEqual) return 'other'
  const isNamed = isOurs ?? isEncodedReference(order.mp_external_reference)
  const isOfItsTime = createdAt === null || canBeMadeAt(deps, order, createdAt, doubtfulAt)
  return isNamed && isPoint && isOfItsTime ? 'ours' : 'unproven'
}

function canBeMadeAt(
  { settings, providerClock }: FitDeps,
  order: OrderRow,
  madeAt: Date,
  doubtfulAt: Date | null,
): boolean {
  const { created_at, sent_at, unanswered_at, last_updated_at, expires_at } = order
  const known = [sent_at, unanswered_at, last_updated_at, doubtfulAt].map(
    (at) => at?.getTime() ?? 0,
  )
  const firstMs = Math.min(created_at.getTime(), sent_at?.getTime() ?? created_at.getTime())
  const lateMs = Math.max(created_at.getTime(), ...known) + settings.lateArrivalMs
  const lastMs = Math.max(lateMs, expires_at.getTime())
  const atMs = (providerClock?.toOurs(madeAt) ?? madeAt).getTime()
  return atMs >= firstMs - clockMarginMs && atMs <= lastMs + clockMarginMs
}

type SearchHints = {
  /** The provider answered that the key is used: the box may have a new terminal since. */
  isKeyTaken?: boolean
  doubtfulAt?: Date | null
}

/** Searches the order at the provider by its reference. The provider does not document this search for terminals. */
export async function searchOrder(
  deps: PaymentDeps,
  order: OrderRow,
  context: RequestContext,
  hints: SearchHints = {},
): Promise<Found> {
  const { orders: hits, unreadable } = await withAccess(deps, order.client, ({ token }, options) =>
    deps.provider.orders.search(
      token,
      {
        externalReference: order.mp_external_reference,
        from: new Date(order.created_at.getTime() - 3600_000),
        to: new Date(order.created_at.getTime() + 48 * 3600_000),
      },
      options,
    ),
  )
  const named: FoundOrder[] = []
  for (const hit of hits) {
    if (hit.evidence.externalReference !== order.mp_external_reference) continue
    named.push(await readWhole(deps, order, context, hit))
  }
  const fitting = (fit: Fit) =>
    named.filter((hit) => fitOf(deps, order, hit, hints) === fit).map(({ evidence }) => evidence)
  return {
    evidence: fitting('ours')[0],
    // A search result that cannot be read may be the order.
    isAbsent: named.length === 0 && unreadable === 0,
    unproven: fitting('unproven').map(({ mpOrderId }) => mpOrderId),
  }
}

/** The short form in the list does not name the application. */
async function readWhole(
  deps: PaymentDeps,
  order: OrderRow,
  context: RequestContext,
  hit: FoundOrder,
): Promise<FoundOrder> {
  const isListed = hit.isOurs !== null || isEncodedReference(order.mp_external_reference)
  if (isListed || hit.evidence.amountCents !== order.amount_cents) return hit
  try {
    return await withAccess(
      deps,
      order.client,
      ({ token }, options) => deps.provider.orders.find(token, hit.evidence.mpOrderId, options),
      aboutOrder(order, context),
    )
  } catch (error) {
    // It cannot be read, so the short form is used.
    if (error instanceof ProviderError && error.status === 404) return hit
    throw error
  }
}

/** Notes in the order which orders at the provider may be it; a person must check them. */
export async function noteUnproven(
  deps: PaymentDeps,
  order: OrderRow,
  mpOrderIds: readonly string[],
  source: EvidenceSource,
): Promise<OrderRow> {
  const { order: after, changed } = await moveOrder(
    deps,
    deps.database.db,
    order,
    source,
    { kind: 'equal_orders_found', mpOrderIds },
    // Nothing new makes an earlier one useful.
    { plan: keepNextCheck },
  )
  if (changed) {
    deps.log.warn(
      { orderId: order.id, client: order.client, mpOrderIds, source },
      'provider has an equal order; it may be another one than the unanswered creation',
    )
  }
  return after
}
