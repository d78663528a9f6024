import type { Db, Trx } from '../../db/database.ts'
import { constraintOf } from '../../db/database-failures.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { pointFromCents, wholeCurrencyOf } from '../../domain/money.ts'
import { longestOrderMs, type OrderEvidence } from '../../domain/order.ts'
import {
  attemptOfReference,
  isEncodedReference,
  providerKey,
  saleKey,
  splitReference,
} from '../../domain/provider-names.ts'
import { AppError } from '../../errors/app-error.ts'
import { type FoundOrder, ProviderError } from '../../provider/provider.ts'
import { findSite } from '../../repositories/closings/closing-queries.ts'
import {
  findAccounts,
  findClientsOfAccount,
  findConnection,
} from '../../repositories/connection/connection-queries.ts'
import {
  findBoxesOfProvider,
  findTextOfReference,
  findUnconfirmedByReference,
  isAccountOfClient,
} from '../../repositories/orders/adopted-orders.ts'
import {
  countOrders,
  findAccountsWithUnconfirmedOrders,
  findLastOrderOnTerminal,
  findOrderOfAnyClient,
  insertOrder,
  type OrderRow,
} from '../../repositories/orders/order-queries.ts'
import { insertOrderEvent } from '../../repositories/orders/timeline-queries.ts'
import type { ProviderPaymentRow } from '../../repositories/provider-payments/provider-payments.ts'
import {
  findPos,
  noteFoundOrder,
  type PosWithStore,
} from '../../repositories/stores/store-queries.ts'
import { findAdoptedAs } from '../../repositories/unclaimed-payments/unclaimed-queries.ts'
import { recordSuccess } from '../audit/activity.ts'
import { withAccess } from '../connection/access.ts'
import type { PaymentDeps } from '../deps.ts'
import { notifyOrderChanged } from '../process/order-changes.ts'
import { type EvidenceSource, serviceActor, serviceContext } from '../request-context.ts'
import { providerAnswered } from './decide.ts'
import { clockMarginMs, fitOf, noteUnproven } from './find-at-provider.ts'
import { confirmCreation, moveOrder } from './state.ts'

/**
 * Orders that the provider has and whose id is not stored here. Three cases: the creation was never answered, the order counted
 * as refused, or a restored backup lacks it. A webhook, the watch of payments (unclaimed-payments.ts) or a request with the
 * provider's id finds them.
 *
 * An order is adopted only on certain facts. It belongs to a connected account, this service's application made it, and its
 * terminal belongs to one box of one client. An order of another system on the same account is not adopted: with a row here it
 * would sooner or later be canceled.
 */
type Adoption =
  /**
   * `known`: a row existed, with its id or made of its payment. `confirmed`: the row of an unanswered creation. `adopted`: a new
   * row.
   */
  | { kind: 'known' | 'confirmed' | 'adopted'; order: OrderRow }
  | { kind: 'foreign' }
  /** The account has no such order. */
  | { kind: 'absent' }

/** A provider account, and the clients that are connected to it. */
type Account = { mpUserId: number; clients: ClientName[] }

async function connectedAccount(deps: PaymentDeps, mpUserId: number): Promise<Account | undefined> {
  const clients = await findClientsOfAccount(deps.database.db, mpUserId)
  return clients.length > 0 ? { mpUserId, clients } : undefined
}

/**
 * Calls the provider as this account.
 *
 * @throws like `withAccess`, and ACCOUNT_MISMATCH when the client has connected another account.
 */
async function withAccount<T>(
  deps: PaymentDeps,
  { mpUserId, clients }: Account,
  call: (token: string) => Promise<T>,
): Promise<T> {
  const [client] = clients
  if (client === undefined) throw new AppError('OAUTH_NOT_CONNECTED')
  return withAccess(deps, client, async (access) => {
    if (access.mpUserId !== mpUserId) throw new AppError('ACCOUNT_MISMATCH')
    return call(access.token)
  })
}

/** For this time a foreign order is not read again. It does not become ours, but a box may be added meanwhile. */
const foreignForMs = 10 * 60_000
/** An order that was just made may not be readable yet. */
const absentForMs = 60_000
const readWithinMs = 10_000
const foreignStatuses: ReadonlySet<number> = new Set([400, 403, 404])

/**
 * Reads an order without a row, and adopts it when it is ours.
 *
 * @throws the reason why it could not be read, such as a lost connection: the account may have the order
 */
async function adoptById(
  deps: PaymentDeps,
  account: Account,
  mpOrderId: string,
  source: EvidenceSource,
  untilMs = deps.stopwatch() + readWithinMs,
): Promise<Adoption> {
  const found = await withAccount(deps, account, (token) =>
    deps.provider.orders.find(token, mpOrderId, { untilMs }),
  ).catch((error) => {
    // Not this account's order, or not an id.
    if (error instanceof ProviderError && foreignStatuses.has(error.status ?? 0)) return undefined
    throw error
  })
  if (!found) return { kind: 'absent' }
  const adoption = await adoptFound(deps, account, found, source)
  if (adoption.kind === 'foreign') deps.foreignOrders.add(mpOrderId, null, deps.now(), foreignForMs)
  return adoption
}

/** A webhook with a false account in its body must not cost more reads than this. */
const accountsAtMost = 8

/**
 * Finds and reads an order whose account is not known. The body of a webhook is not signed, so `hint` only names the account to
 * try first. A foreign order is not read again for some minutes, however many webhooks come.
 *
 * @throws the reason why it could not be read, and OAUTH_NOT_CONNECTED when `hint` is the account of a shop that is not
 * connected.
 */
export async function adoptFromAnyAccount(
  deps: PaymentDeps,
  hint: number | null,
  mpOrderId: string,
): Promise<Adoption> {
  if (deps.foreignOrders.has(mpOrderId, null, deps.now())) return { kind: 'foreign' }
  const { db } = deps.database
  const hinted = hint === null ? undefined : await connectedAccount(deps, hint)
  let failure: unknown
  const adoptAt = (account: Account) =>
    adoptById(deps, account, mpOrderId, 'webhook').catch((error: unknown): Adoption => {
      failure ??= error
      return { kind: 'absent' }
    })
  const first = hinted && (await adoptAt(hinted))
  if (first && first.kind !== 'absent') return first
  // A connected account that the body names has its own orders, unless the body is false.
  const others = new Set(await findAccountsWithUnconfirmedOrders(db, accountsAtMost))
  if (!hinted) for (const mpUserId of await findAccounts(db, accountsAtMost)) others.add(mpUserId)
  for (const mpUserId of [...others].slice(0, accountsAtMost)) {
    const account = mpUserId === hint ? undefined : await connectedAccount(deps, mpUserId)
    const adoption = account && (await adoptAt(account))
    if (adoption && adoption.kind !== 'absent') return adoption
  }
  if (failure !== undefined) throw failure
  if (hint !== null && !hinted && (await isAccountOfClient(db, hint))) {
    throw new AppError('OAUTH_NOT_CONNECTED')
  }
  deps.foreignOrders.add(mpOrderId, null, deps.now(), absentForMs)
  return { kind: 'absent' }
}

const providerId = /^ORD[0-9A-Z]{1,60}$/

/**
 * Finds an order that a request of this client names by the provider's id. An id that is invalid or not of this client's account
 * costs one provider read a minute.
 *
 * @throws SERVICE_UNAVAILABLE when the provider cannot be asked: the order may exist.
 */
export async function adoptForClient(
  deps: PaymentDeps,
  client: ClientName,
  mpOrderId: string,
  untilMs = Number.POSITIVE_INFINITY,
): Promise<void> {
  const { db } = deps.database
  // An order with a row here belongs to another client.
  if (!providerId.test(mpOrderId) || (await findOrderOfAnyClient(db, mpOrderId))) return
  const mpUserId = (await findConnection(db, client))?.mp_user_id
  if (mpUserId === undefined) return
  const isForeign = [null, mpUserId].some((where) =>
    deps.foreignOrders.has(mpOrderId, where, deps.now()),
  )
  if (isForeign) return
  const account = await connectedAccount(deps, mpUserId)
  if (!account) return
  const adoption = await adoptById(
    deps,
    account,
    mpOrderId,
    'api',
    Math.min(untilMs, deps.stopwatch() + readWithinMs),
  ).catch((error: unknown) => {
    // Without a connection the local records answer, and this order is not among them.
    if (error instanceof AppError && error.status === 409) return undefined
    if (!(error instanceof ProviderError)) throw error
    throw new AppError('SERVICE_UNAVAILABLE', { cause: error })
  })
  if (!adoption) return
  const isUnderOtherId = adoption.kind === 'known' && adoption.order.mp_order_id !== mpOrderId
  if (adoption.kind === 'absent' || isUnderOtherId)
    deps.foreignOrders.add(mpOrderId, mpUserId, deps.now(), absentForMs)
}

/**
 * Adopts the order of a payment that has none here, when it is ours. A payment that does not name its order is followed by its
 * reference.
 *
 * @throws the reason why the order could not be read: the account may have it
 */
export async function adoptOfPayment(
  deps: PaymentDeps,
  payment: Pick<
    ProviderPaymentRow,
    'mp_user_id' | 'mp_order_id' | 'external_reference' | 'made_at' | 'sold_at'
  >,
): Promise<void> {
  const { mp_user_id, mp_order_id: named, external_reference: reference } = payment
  const account = await connectedAccount(deps, mp_user_id)
  if (!account) return
  const adoptUnlessKnown = async (mpOrderId: string) => {
    if (deps.foreignOrders.has(mpOrderId, null, deps.now())) return
    if (await findOrderOfAnyClient(deps.database.db, mpOrderId)) return
    await adoptById(deps, account, mpOrderId, 'search')
  }
  if (named !== null && providerId.test(named)) return adoptUnlessKnown(named)
  if (reference === null) return
  const paidMs = (payment.made_at ?? payment.sold_at).getTime()
  const { orders } = await withAccount(deps, account, (token) =>
    deps.provider.orders.search(
      token,
      {
        externalReference: reference,
        from: new Date(paidMs - longestOrderMs),
        to: new Date(paidMs + clockMarginMs),
      },
      { untilMs: deps.stopwatch() + readWithinMs },
    ),
  )
  for (const { evidence } of orders) await adoptUnlessKnown(evidence.mpOrderId)
}

/** The provider's id of the box that a terminal of the account has now. */
async function findProviderBox(
  deps: PaymentDeps,
  account: Account,
  terminalId: string,
): Promise<string | undefined> {
  for (let offset = 0; ; ) {
    const untilMs = deps.stopwatch() + readWithinMs
    const { terminals, rows, total } = await withAccount(deps, account, (token) =>
      deps.provider.terminals.list(token, { limit: 50, offset }, { untilMs }),
    )
    const box = terminals.find(({ id, mpPosId }) => id === terminalId && mpPosId !== null)
    offset += rows
    if (box || rows === 0 || offset >= total) return box?.mpPosId ?? undefined
  }
}

/** Adopts an order that the provider has just shown, when it is ours. */
async function adoptFound(
  deps: PaymentDeps,
  account: Account,
  found: FoundOrder,
  source: EvidenceSource,
): Promise<Adoption> {
  const { db } = deps.database
  const { evidence } = found
  const known = await findOrderOfAnyClient(db, evidence.mpOrderId)
  if (known) return { kind: 'known', order: known }
  const content = contentOf(account, found)
  if (!content) return { kind: 'foreign' }
  const waiting = await findWaiting(db, account, content)
  if (waiting) return confirm(deps, waiting, found, source)
  // Documented samples name the application. Without it only a reference in this service's encoding proves it.
  if (found.isOurs === null && !isEncodedReference(content.reference)) return { kind: 'foreign' }
  const box = await findBox(deps, account, content.terminalId)
  if (!box) {
    const { mpOrderId, status } = evidence
    deps.log.warn(
      { mpOrderId, status, mpUserId: account.mpUserId, terminalId: content.terminalId },
      'provider has an order of this service that matches no box',
    )
    return { kind: 'foreign' }
  }
  try {
    return await adopt(deps, account, box, found, content, source)
  } catch (error) {
    // Another request adopted it first.
    const arrived = constraintOf(error)?.startsWith('orders_mp_')
      ? await findOrderOfAnyClient(db, evidence.mpOrderId)
      : undefined
    if (!arrived) throw error
    return { kind: 'known', order: arrived }
  }
}

type Content = { reference: string; amountCents: number; terminalId: string }

/** What an order of ours always has. Undefined when it is not ours, or a field is missing. */
function contentOf(
  account: Account,
  { evidence, isOurs, isPoint }: FoundOrder,
): Content | undefined {
  const { externalReference: reference, amountCents, terminalId, mpUserId } = evidence
  if (isOurs === false || !isPoint) return undefined
  if (mpUserId !== null && mpUserId !== String(account.mpUserId)) return undefined
  if (reference === null || terminalId === null || amountCents === null || amountCents <= 0) {
    return undefined
  }
  return { reference, amountCents, terminalId }
}

/** The row of an unfinished or refused creation that this order answers: equal in reference, amount and terminal. */
async function findWaiting(
  db: Db | Trx,
  account: Account,
  content: Content,
): Promise<OrderRow | undefined> {
  const row = await findUnconfirmedByReference(db, account.mpUserId, content.reference)
  const isEqual =
    row?.amount_cents === content.amountCents && row.terminal_id === content.terminalId
  return isEqual ? row : undefined
}

async function confirm(
  deps: PaymentDeps,
  waiting: OrderRow,
  found: FoundOrder,
  source: EvidenceSource,
): Promise<Adoption> {
  const { evidence } = found
  if (fitOf(deps, waiting, found) !== 'ours') {
    await noteUnproven(deps, waiting, [evidence.mpOrderId], source)
    return { kind: 'foreign' }
  }
  const order = await confirmCreation(deps, waiting, evidence, serviceContext(deps, source))
  // Evidence that contradicts the row does not confirm it, and is noted in the row.
  return order.mp_order_id === evidence.mpOrderId
    ? { kind: 'confirmed', order }
    : { kind: 'foreign' }
}

/**
 * The only box that the order can belong to. A terminal without a box counts for the box of our last charge on it. When two
 * clients have the same box at one account, the owner is unknown and no box is returned.
 */
async function findBox(
  deps: PaymentDeps,
  account: Account,
  terminalId: string,
): Promise<PosWithStore | undefined> {
  const { db } = deps.database
  const { mpUserId, clients } = account
  const mpPosId = await findProviderBox(deps, account, terminalId)
  if (mpPosId !== undefined) {
    const boxes = await findBoxesOfProvider(db, clients, mpPosId)
    return boxes.length === 1 ? boxes[0] : undefined
  }
  const last = await findLastOrderOnTerminal(db, clients, mpUserId, terminalId)
  return last && findPos(db, last.client, last.caja_id)
}

/** The provider's own default, for an order that does not say it. */
const defaultExpirationMinutes = 15

/**
 * Inserts a row for an order of ours that only the provider has, with the provider's evidence. It locks the box, as every charge
 * does: an equal charge at the same moment finds this row, or its row is found here.
 */
async function adopt(
  deps: PaymentDeps,
  account: Account,
  box: PosWithStore,
  found: FoundOrder,
  content: Content,
  source: EvidenceSource,
): Promise<Adoption> {
  const { evidence } = found
  const { client } = box
  const adoption = await deps.database.transaction(async (trx) => {
    if (!(await noteFoundOrder(trx, client, box.id))) return 'foreign'
    const waiting = await findWaiting(trx, account, content)
    if (waiting) return { waiting }
    // A person has recorded this charge by its payment: another order would count it twice.
    const numbers = evidence.payments.flatMap(({ referenceId }) => referenceId ?? [])
    const counted = await findAdoptedAs(trx, client, numbers)
    if (counted) return { counted }
    const now = deps.now()
    const row = await rowOfFound(trx, account, box, found, content, now)
    const note = 'found at the provider'
    const order = await insertAdopted(deps, trx, row, { source, note, evidence })
    notifyOrderChanged(deps.database, order)
    await recordSuccess(deps, trx, {
      client,
      actor: serviceActor(now),
      action: 'order.adopted',
      resourceId: order.id,
      metadata: {
        mp_order_id: evidence.mpOrderId,
        amount: pointFromCents(content.amountCents),
        caja_id: box.external_id,
      },
    })
    return { order }
  })
  if (adoption === 'foreign') return { kind: 'foreign' }
  if (adoption.counted) return { kind: 'known', order: adoption.counted }
  if (adoption.waiting) return confirm(deps, adoption.waiting, found, source)
  const { order } = adoption
  deps.log.warn(
    { orderId: order.id, client, mpOrderId: evidence.mpOrderId, status: order.status, source },
    'order adopted: the provider had it and the database did not',
  )
  return { kind: 'adopted', order }
}

/** The columns that differ among orders that were not made by a request. */
type AdoptedOrder = Omit<
  Parameters<typeof insertOrder>[1],
  'creation' | 'status' | 'sent_at' | 'last_updated_at' | 'expires_at'
> & { created_at: Date }

/** Inserts an order that only the provider has, with its history, and moves it to the provider's state. */
export async function insertAdopted(
  deps: PaymentDeps,
  trx: Trx,
  order: AdoptedOrder,
  { source, note, evidence }: { source: EvidenceSource; note: string; evidence: OrderEvidence },
): Promise<OrderRow> {
  const now = deps.now()
  const madeAt = order.created_at
  const row = await insertOrder(trx, {
    ...order,
    creation: 'confirmed',
    status: 'created',
    sent_at: madeAt,
    last_updated_at: now,
    expires_at: new Date(madeAt.getTime() + order.expiration_minutes * 60_000),
    checked_at: now,
    next_check_at: now,
    adopted_at: now,
  })
  await insertOrderEvent(trx, {
    order_id: row.id,
    client: row.client,
    at: now,
    source,
    from_status: null,
    to_status: row.status,
    status_detail: null,
    version: row.version,
    note,
  })
  return (await moveOrder(deps, trx, row, source, providerAnswered(evidence))).order
}

/** The row of an order that only the provider has. */
async function rowOfFound(
  trx: Trx,
  account: Account,
  box: PosWithStore,
  found: FoundOrder,
  content: Content,
  now: Date,
): Promise<AdoptedOrder> {
  const site = await findSite(trx, account.mpUserId)
  const text = await erpReference(trx, account, content.reference)
  const madeAt = found.createdAt === null || found.createdAt > now ? now : found.createdAt
  const sale = saleKey(box.client, account.mpUserId, {
    cajaId: box.external_id,
    externalReference: text,
    amountCents: content.amountCents,
  })
  const minutes = Math.min(180, Math.max(1, found.expirationMinutes ?? defaultExpirationMinutes))
  return {
    // The id that it had, if its till sent no key of its own. It counts as one charge of this content: the next one gets
    // another id.
    id: providerKey(sale, (await countOrders(trx, sale)) + 1),
    request_key: sale,
    client: box.client,
    caja_id: box.external_id,
    sucursal_id: box.store_external_id,
    terminal_id: content.terminalId,
    mp_user_id: account.mpUserId,
    external_reference: text,
    mp_external_reference: content.reference,
    reference_attempt: attemptOfReference(content.reference, text) ?? 1,
    amount_cents: content.amountCents,
    whole_amount: wholeCurrencyOf(site?.site_id) !== undefined,
    description: found.description,
    ticket_number: found.ticketNumber,
    send_ticket_number: found.ticketNumber !== null,
    print_ticket: found.printTicket,
    payment_method: found.paymentMethod,
    expiration_minutes: minutes,
    mp_order_id: found.evidence.mpOrderId,
    created_at: madeAt,
  }
}

/** The ERP's text of a reference: that of an earlier attempt, or else the reference itself. An encoded text cannot be decoded. */
async function erpReference(trx: Trx, account: Account, reference: string): Promise<string> {
  for (const earlier of [reference, splitReference(reference)?.base]) {
    if (earlier === undefined) continue
    const text = await findTextOfReference(trx, account.mpUserId, earlier)
    if (text !== undefined && attemptOfReference(reference, text) !== undefined) return text
  }
  return reference
}
