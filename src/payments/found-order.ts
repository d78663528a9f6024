import { constraintOf } from '../db/failures.ts'
import { pointFromCents } from '../domain/money.ts'
import type { OrderEvidence } from '../domain/order.ts'
import { moveIdempotencyKeys } from '../repositories/idempotency-keys.ts'
import { findOrderOfAnyClient, lockOrder, type OrderRow } from '../repositories/orders.ts'
import { type ActivityEntry, signSuccess } from './activity.ts'
import { applyNotCreated, type EvidenceSource, isAbout } from './apply-evidence.ts'
import type { Actor, PaymentDeps } from './deps.ts'
import type { Errand } from './errand.ts'
import { moveOrder } from './move-order.ts'
import { withOrderAccess } from './order-access.ts'
import { takeEvidence } from './take-evidence.ts'

export type Found = {
  evidence: OrderEvidence | undefined
  /** The provider answered, and has nothing under our reference. */
  isAbsent: boolean
}

/**
 * Looks for the order at the provider by its reference. Only a hit that agrees in reference, terminal and amount counts: the
 * search is not documented for terminals. When the provider says that the key is taken, another terminal is no
 * contradiction: the box may have got a new one since.
 */
export async function searchOrder(
  deps: PaymentDeps,
  order: OrderRow,
  errand: Errand,
  isKeyTaken = false,
): Promise<Found> {
  const hits = await withOrderAccess(deps, order, errand, (token, options) =>
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
  const ours = hits.filter((hit) => hit.externalReference === order.mp_external_reference)
  const evidence = ours.find(
    (hit) =>
      hit.amountCents === order.amount_cents &&
      (isKeyTaken || hit.terminalId === order.terminal_id),
  )
  return { evidence, isAbsent: ours.length === 0 }
}

/**
 * Records that the provider has the order, with the audit entry of its creation. One that had counted as refused opens
 * again. An order that stands in another row already, as after a restored backup, is that row's: this one was never made,
 * and the other is returned. `frees` is the claim on its key that is given back with it.
 */
export async function confirmCreation(
  deps: PaymentDeps,
  order: OrderRow,
  evidence: OrderEvidence,
  { source, actor }: Errand,
  frees?: string,
): Promise<OrderRow> {
  if (!isAbout(order, evidence)) {
    const holder = await findHolder(deps, order, evidence)
    if (holder) return leaveToHolder(deps, order, holder, source)
  }
  try {
    const { order: after } = await takeEvidence(deps, order, () => evidence, source, {
      prepare: makeRoom,
      along: (after, before) => ({
        frees,
        ...(before.creation !== 'confirmed' &&
          after.creation === 'confirmed' && {
            entries: [signSuccess(deps, creationEntry(after, actor))],
          }),
      }),
    })
    return after
  } catch (error) {
    const isHeld = constraintOf(error) === 'orders_mp_order_id_key'
    const holder = isHeld ? await findHolder(deps, order, evidence) : undefined
    if (holder) return leaveToHolder(deps, order, holder, source)
    throw error
  }
}

function creationEntry(order: OrderRow, actor: Actor): ActivityEntry {
  return {
    client: order.client,
    actor,
    action: 'order.created',
    resourceType: 'order',
    resourceId: order.id,
    metadata: {
      mp_order_id: order.mp_order_id,
      amount: pointFromCents(order.amount_cents),
      caja_id: order.caja_id,
    },
  }
}

/** Another row that the provider's order stands in. */
async function findHolder(
  deps: PaymentDeps,
  order: OrderRow,
  evidence: OrderEvidence,
): Promise<OrderRow | undefined> {
  const holder = await findOrderOfAnyClient(deps.database.db, evidence.mpOrderId)
  return holder?.id === order.id ? undefined : holder
}

async function leaveToHolder(
  deps: PaymentDeps,
  order: OrderRow,
  holder: OrderRow,
  source: EvidenceSource,
): Promise<OrderRow> {
  const known = { code: 'stands in another order', unansweredAt: null }
  return deps.database.transaction(async (trx) => {
    const locked = await lockOrder(trx, order.id)
    if (holder.client !== order.client) return locked
    await moveOrder(deps, trx, locked, source, (current) => ({
      move: applyNotCreated(current, deps.now(), known),
    }))
    await moveIdempotencyKeys(trx, { from: order.id, to: holder.id })
    return holder
  })
}

/** The provider counts an order's time from when it has it, so one that it got late is not over yet. */
function makeRoom(order: OrderRow): OrderRow {
  const { creation, unanswered_at: sentAt, cancel_requested_at: wish } = order
  const isNew = creation === 'intent' || creation === 'unknown'
  if (!isNew || sentAt === null || wish !== null) return order
  const expiresAt = new Date(sentAt.getTime() + order.expiration_minutes * 60_000)
  if (expiresAt.getTime() - order.expires_at.getTime() < 60_000) return order
  return { ...order, expires_at: expiresAt }
}
