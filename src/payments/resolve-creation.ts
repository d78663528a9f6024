import { pointFromCents } from '../domain/money.ts'
import type { OrderEvidence } from '../domain/order.ts'
import { isUntouchable } from '../domain/order-state.ts'
import { AppError } from '../errors.ts'
import { type NewProviderOrder, ProviderError } from '../provider/provider.ts'
import {
  findOrderOfAnyClient,
  lockOrder,
  type OrderRow,
  planCheck,
} from '../repositories/orders.ts'
import { recordSuccess } from './activity.ts'
import {
  applyEvidence,
  applyNotCreated,
  applyUnknownCreation,
  type EvidenceSource,
  nextCheck,
} from './apply-evidence.ts'
import type { Actor, PaymentDeps } from './deps.ts'
import { isAnswered, nextUnknownAttempt } from './operation-ladder.ts'
import { aboutOrder, withOrderAccess } from './order-access.ts'
import { sendAlone } from './send-alone.ts'

export type CreationOutcome =
  | { kind: 'confirmed'; order: OrderRow }
  | { kind: 'refused'; order: OrderRow; error: ProviderError | AppError }
  | { kind: 'unknown'; order: OrderRow; error: unknown }

/** The provider remembers a key for 24 h; an hour is kept for clocks that differ. */
const keyMemoryMs = 23 * 3600_000

/**
 * Brings the creation of an order to an outcome, for the request that made it and for whoever finds it open later. The
 * provider always gets the order's own key, so however often this runs there is at most one order. Past the provider's
 * memory of the key it is never sent again: then only a search may find the order.
 *
 * `isFirst`: this call is the one that wrote the intent, so the key cannot have been sent before.
 */
export async function resolveCreation(
  deps: PaymentDeps,
  order: OrderRow,
  source: EvidenceSource,
  actor: Actor,
  deadlineMs: number,
  isFirst = false,
): Promise<CreationOutcome> {
  return deps.once(`create:${order.id}`, async () => {
    const until = performance.now() + deadlineMs
    for (;;) {
      const held = isFirst ? order.sender : null
      const sent = await sendAlone(deps, { table: 'orders', id: order.id }, held, (sender) =>
        send(deps, order, source, actor, { deadlineMs, isFirst, sender }),
      )
      if (sent) return sent.result
      const waits = source === 'api' && performance.now() < until
      if (!waits) return leaveToOther(deps, order)
      await deps.changes.wait(order.id, lookAgainMs)
    }
  })
}

/** How often a request looks whether another process is through with its order. */
const lookAgainMs = 200

/** Another process is sending: what becomes of it is seen at the next look. */
async function leaveToOther(deps: PaymentDeps, order: OrderRow): Promise<CreationOutcome> {
  const now = deps.now()
  const nextCheckAt = nextUnknownAttempt(now, order.created_at)
  await planCheck(deps.database.db, order.id, { checkedAt: null, nextCheckAt })
  return { kind: 'unknown', order, error: undefined }
}

async function send(
  deps: PaymentDeps,
  order: OrderRow,
  source: EvidenceSource,
  actor: Actor,
  { deadlineMs, isFirst, sender }: { deadlineMs: number; isFirst: boolean; sender: string },
): Promise<CreationOutcome> {
  const known = isFirst ? order : await findOrderOfAnyClient(deps.database.db, order.id)
  if (known?.creation === 'confirmed') return { kind: 'confirmed', order: known }
  if (known?.creation === 'refused') {
    const message = 'The provider refused an equal request a moment ago; nothing was charged'
    return { kind: 'refused', order: known, error: new AppError('PROVIDER_ERROR', { message }) }
  }
  const remembered =
    deps.now().getTime() - (order.sent_at ?? order.created_at).getTime() < keyMemoryMs
  try {
    const evidence = remembered
      ? await withOrderAccess(deps, order, (access) =>
          deps.provider.orders.create(access.token, order.id, providerOrder(order), {
            about: aboutOrder(order, source),
            deadlineMs,
          }),
        )
      : await searchOrder(deps, order, source)
    const confirmed = evidence && (await confirmCreation(deps, order, evidence, source, actor))
    // Evidence that contradicts the order confirms nothing: whether the customer is charged stays unknown.
    return confirmed?.creation === 'confirmed'
      ? { kind: 'confirmed', order: confirmed }
      : { kind: 'unknown', order: await keepUnknown(deps, order, source, true), error: undefined }
  } catch (error) {
    if (remembered && provesAbsence(error, isFirst)) {
      const code = error instanceof ProviderError ? error.providerCode : error.code
      const after = await deps.database.transaction(async (trx) => {
        const locked = await lockOrder(trx, order.id)
        // Somebody else sends by now: this refusal says nothing about that call.
        if (locked.sender !== sender) return locked
        return applyNotCreated(trx, locked, source, deps.now(), code)
      })
      // Found meanwhile, by a webhook for instance: then the order is there whatever this call says.
      if (after.creation === 'confirmed') return { kind: 'confirmed', order: after }
      if (after.creation === 'refused') return { kind: 'refused', order: after, error }
    }
    const answered = isAnswered(error)
    return { kind: 'unknown', order: await keepUnknown(deps, order, source, answered), error }
  }
}

/**
 * Whether the provider cannot have the order. For the first call of a key it is enough that the call itself had no
 * effect. Later only a definite refusal under the key counts: had the provider taken the order before, it would have
 * answered with it; a 401 or an unreachable provider says nothing about an earlier call whose answer was lost.
 */
function provesAbsence(error: unknown, isFirst: boolean): error is ProviderError | AppError {
  if (error instanceof AppError) return isFirst
  if (!(error instanceof ProviderError)) return false
  return error.provesAbsence || (isFirst && error.effect === 'none')
}

/** The content under the key: made of the row alone, so that every repetition is equal to the first. */
function providerOrder(order: OrderRow): NewProviderOrder {
  return {
    externalReference: order.mp_external_reference,
    amountCents: order.amount_cents,
    terminalId: order.terminal_id,
    description: order.description,
    ticketNumber: order.send_ticket_number ? order.ticket_number : null,
    printTicket: order.print_ticket,
    paymentMethod: order.payment_method,
    expirationMinutes: order.expiration_minutes,
  }
}

/** Only a hit that agrees in reference, terminal and amount counts: the search is not documented for terminals. */
async function searchOrder(
  deps: PaymentDeps,
  order: OrderRow,
  source: EvidenceSource,
): Promise<OrderEvidence | undefined> {
  const found = await withOrderAccess(deps, order, (access) =>
    deps.provider.orders.search(
      access.token,
      {
        externalReference: order.mp_external_reference,
        from: new Date(order.created_at.getTime() - 3600_000),
        to: new Date(order.created_at.getTime() + 48 * 3600_000),
      },
      { about: aboutOrder(order, source) },
    ),
  )
  return found.find(
    (evidence) =>
      evidence.externalReference === order.mp_external_reference &&
      evidence.terminalId === order.terminal_id &&
      evidence.amountCents === order.amount_cents,
  )
}

/** Records that the provider has the order, with the audit entry of its creation. */
export async function confirmCreation(
  deps: PaymentDeps,
  order: OrderRow,
  evidence: OrderEvidence,
  source: EvidenceSource,
  actor: Actor,
): Promise<OrderRow> {
  return deps.database.transaction(async (trx) => {
    const locked = await lockOrder(trx, order.id)
    const applied = await applyEvidence(trx, locked, evidence, source, deps.now())
    if (locked.creation !== 'confirmed' && applied.order.creation === 'confirmed') {
      await recordSuccess(deps, trx, {
        client: order.client,
        actor,
        action: 'order.created',
        resourceType: 'order',
        resourceId: order.id,
        metadata: {
          mp_order_id: evidence.mpOrderId,
          amount: pointFromCents(order.amount_cents),
          caja_id: order.caja_id,
        },
      })
    }
    return applied.order
  })
}

async function keepUnknown(
  deps: PaymentDeps,
  order: OrderRow,
  source: EvidenceSource,
  answered: boolean,
): Promise<OrderRow> {
  const unknown = await deps.database.transaction(async (trx) =>
    applyUnknownCreation(trx, await lockOrder(trx, order.id), source, deps.now()),
  )
  if (!isUntouchable(unknown.status)) {
    const now = deps.now()
    await planCheck(deps.database.db, order.id, {
      checkedAt: null,
      nextCheckAt:
        now.getTime() - order.created_at.getTime() < keyMemoryMs
          ? nextUnknownAttempt(now, order.created_at)
          : nextCheck(unknown, now, answered),
    })
  }
  return unknown
}
