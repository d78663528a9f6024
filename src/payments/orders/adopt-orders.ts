import type { Db, Trx } from '../../db/database.ts'
import { constraintOf } from '../../db/database-failures.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { pointFromCents, wholeCurrencyOf } from '../../domain/money.ts'
import { providerKey, saleKey } from '../../domain/provider-key.ts'
import { AppError } from '../../errors/app-error.ts'
import {
  attemptOfReference,
  type FoundOrder,
  isEncodedReference,
  ProviderError,
  splitReference,
} from '../../provider/provider.ts'
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
import { insertOrderEvent } from '../../repositories/orders/order-events.ts'
import {
  countOrders,
  findAccountsWithUnconfirmedOrders,
  findLastOrderOnTerminal,
  findOrderOfAnyClient,
  insertOrder,
  type OrderRow,
} from '../../repositories/orders/order-queries.ts'
import {
  findPos,
  noteFoundOrder,
  type PosWithStore,
} from '../../repositories/stores/store-queries.ts'
import { recordSuccess } from '../audit/activity.ts'
import { withAccess } from '../connection/token-keeper.ts'
import type { PaymentDeps } from '../deps.ts'
import { serviceActor, serviceContext } from '../operations/request-context.ts'
import { applyEvidence, type EvidenceSource } from './apply-evidence.ts'
import { fitOf, noteUnproven } from './found-order.ts'
import { tellOrderChanged } from './order-changes.ts'
import { confirmCreation, moveOrder } from './state.ts'

/**
 * Orders that the provider has and this database has no id of: one whose creation was never answered, one that was
 * taken for refused, and one that a restored backup has forgotten. Each is met by a webhook, by the search after a start
 * (search.ts) or by somebody who reads it under the provider's id.
 *
 * An order becomes ours only by facts that are certain: it lies at a connected account, this service's application made
 * it, and its terminal belongs to one box of one client. The order of another system on the same account stays that
 * system's: a row of ours would sooner or later cancel it.
 */
export type Meeting =
  /** `known`: there was a row with its id. `confirmed`: the row of an unanswered creation. `adopted`: a new row. */
  | { kind: 'known' | 'confirmed' | 'adopted'; order: OrderRow }
  | { kind: 'stranger' }
  /** The account has no such order. */
  | { kind: 'absent' }

/** A provider account, and the clients that are connected to it. */
export type Account = { mpUserId: number; clients: ClientName[] }

/** Where a terminal stands, as the provider says: its id of the box. */
export type BoxOfTerminal = (terminalId: string) => Promise<string | undefined>

export async function connectedAccount(
  deps: PaymentDeps,
  mpUserId: number,
): Promise<Account | undefined> {
  const clients = await findClientsOfAccount(deps.database.db, mpUserId)
  return clients.length > 0 ? { mpUserId, clients } : undefined
}

/** Calls the provider as this account. Throws as `withAccess`, and ACCOUNT_MISMATCH when the client has changed over. */
export async function withAccount<T>(
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

/** What is ours stays ours, and what is not does not become so within this time; a box may be added, though. */
const strangerForMs = 10 * 60_000
/** An order that was made this moment may not be readable yet. */
const absentForMs = 60_000
const readWithinMs = 10_000
const foreignStatuses: ReadonlySet<number> = new Set([400, 403, 404])

/** Reads an order that no row stands for, and takes it in when it is ours. */
export async function meetOrder(
  deps: PaymentDeps,
  account: Account,
  mpOrderId: string,
  source: EvidenceSource,
  untilMs = deps.stopwatch() + readWithinMs,
): Promise<Meeting> {
  const found = await withAccount(deps, account, (token) =>
    deps.provider.orders.find(token, mpOrderId, { untilMs }),
  ).catch((error) => {
    // Not this account's order, or no id at all. A client without connection has nothing to say about it either.
    const isForeign = error instanceof ProviderError && foreignStatuses.has(error.status ?? 0)
    if (isForeign || (error instanceof AppError && error.status === 409)) return undefined
    throw error
  })
  if (!found) return { kind: 'absent' }
  const meeting = await takeIn(deps, account, found, source, terminalsOf(deps, account))
  if (meeting.kind === 'stranger')
    deps.foreignOrders.add(mpOrderId, null, deps.now(), strangerForMs)
  return meeting
}

/** A webhook about an order of an account of which the body lies must not cost more reads than this. */
const accountsAtMost = 8

/**
 * Meets an order without knowing at which account it is. The body of a webhook is not signed, so `hint` only says where
 * to look first. An order that was found to be nobody's is not read again for some minutes, however many webhooks come.
 *
 * Throws what kept it from being read, and OAUTH_NOT_CONNECTED when `hint` is the account of a shop that is not connected.
 */
export async function meetOrderAnywhere(
  deps: PaymentDeps,
  hint: number | null,
  mpOrderId: string,
): Promise<Meeting> {
  if (deps.foreignOrders.has(mpOrderId, null, deps.now())) return { kind: 'stranger' }
  const { db } = deps.database
  const hinted = hint === null ? undefined : await connectedAccount(deps, hint)
  let failure: unknown
  const meetAt = (account: Account) =>
    meetOrder(deps, account, mpOrderId, 'webhook').catch((error: unknown): Meeting => {
      failure ??= error
      return { kind: 'absent' }
    })
  const first = hinted && (await meetAt(hinted))
  if (first && first.kind !== 'absent') return first
  // An account that was named and is connected would know its own orders, unless the body lies about it.
  const others = new Set(await findAccountsWithUnconfirmedOrders(db, accountsAtMost))
  if (!hinted) for (const mpUserId of await findAccounts(db, accountsAtMost)) others.add(mpUserId)
  for (const mpUserId of [...others].slice(0, accountsAtMost)) {
    const account = mpUserId === hint ? undefined : await connectedAccount(deps, mpUserId)
    const meeting = account && (await meetAt(account))
    if (meeting && meeting.kind !== 'absent') return meeting
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
 * Meets an order that somebody of this client names by the provider's id. An id that is none, or none of this client's
 * account, costs a look a minute. Throws SERVICE_UNAVAILABLE when the provider cannot be asked: it may well be an order.
 */
export async function meetOrderOfClient(
  deps: PaymentDeps,
  client: ClientName,
  mpOrderId: string,
  untilMs = Number.POSITIVE_INFINITY,
): Promise<void> {
  const { db } = deps.database
  // One with a row is somebody else's.
  if (!providerId.test(mpOrderId) || (await findOrderOfAnyClient(db, mpOrderId))) return
  const mpUserId = (await findConnection(db, client))?.mp_user_id
  if (mpUserId === undefined) return
  const isStranger = [null, mpUserId].some((where) =>
    deps.foreignOrders.has(mpOrderId, where, deps.now()),
  )
  if (isStranger) return
  const account = await connectedAccount(deps, mpUserId)
  if (!account) return
  const meeting = await meetOrder(
    deps,
    account,
    mpOrderId,
    'api',
    Math.min(untilMs, deps.stopwatch() + readWithinMs),
  ).catch((error: unknown) => {
    if (!(error instanceof ProviderError)) throw error
    throw new AppError('SERVICE_UNAVAILABLE', { cause: error })
  })
  if (meeting.kind === 'absent')
    deps.foreignOrders.add(mpOrderId, mpUserId, deps.now(), absentForMs)
}

/** The terminals of an account, asked for once and only when somebody wants to know. */
export function terminalsOf(deps: PaymentDeps, account: Account): BoxOfTerminal {
  let boxes: Promise<Map<string, string>> | undefined
  const list = async () => {
    const all = new Map<string, string>()
    for (let offset = 0; ; ) {
      const untilMs = deps.stopwatch() + readWithinMs
      const { terminals, rows, total } = await withAccount(deps, account, (token) =>
        deps.provider.terminals.list(token, { limit: 50, offset }, { untilMs }),
      )
      for (const { id, mpPosId } of terminals) if (mpPosId !== null) all.set(id, mpPosId)
      offset += rows
      if (rows === 0 || offset >= total) return all
    }
  }
  return async (terminalId) => {
    boxes ??= list()
    return (await boxes).get(terminalId)
  }
}

/** Takes in an order that the provider has just shown, when it is ours. */
export async function takeIn(
  deps: PaymentDeps,
  account: Account,
  found: FoundOrder,
  source: EvidenceSource,
  boxOf: BoxOfTerminal,
): Promise<Meeting> {
  const { db } = deps.database
  const { evidence } = found
  const known = await findOrderOfAnyClient(db, evidence.mpOrderId)
  if (known) return { kind: 'known', order: known }
  const content = contentOf(account, found)
  if (!content) return { kind: 'stranger' }
  const waiting = await findWaiting(db, account, content)
  if (waiting) return confirm(deps, waiting, found, source)
  // Documented samples name the application. Without it only a reference of our making tells.
  if (found.isOurs === null && !isEncodedReference(content.reference)) return { kind: 'stranger' }
  const box = await findBox(deps, account, content.terminalId, boxOf)
  if (!box) {
    const { mpOrderId, status } = evidence
    deps.log.warn(
      { mpOrderId, status, mpUserId: account.mpUserId, terminalId: content.terminalId },
      'an order that this service made is at the provider, and no box here can be its own',
    )
    return { kind: 'stranger' }
  }
  try {
    return await adopt(deps, account, box, found, content, source)
  } catch (error) {
    // Two that met it together: the other one was quicker.
    const arrived = constraintOf(error)?.startsWith('orders_mp_')
      ? await findOrderOfAnyClient(db, evidence.mpOrderId)
      : undefined
    if (!arrived) throw error
    return { kind: 'known', order: arrived }
  }
}

type Content = { reference: string; amountCents: number; terminalId: string }

/** What an order of ours always has; undefined for one that is not ours or does not say so. */
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

/** The row of a creation without a good end that this order answers: equal in reference, amount and terminal. */
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
): Promise<Meeting> {
  const { evidence } = found
  if (fitOf(deps, waiting, found) !== 'ours') {
    await noteUnproven(deps, waiting, [evidence.mpOrderId], source)
    return { kind: 'stranger' }
  }
  const order = await confirmCreation(deps, waiting, evidence, serviceContext(deps, source))
  // Evidence that contradicts the row confirms nothing, and is noted there.
  return order.mp_order_id === evidence.mpOrderId
    ? { kind: 'confirmed', order }
    : { kind: 'stranger' }
}

/**
 * The one box that the order can be of. A terminal that stands nowhere any more had its box when we last charged on it.
 * Two clients with the same box at one account: nobody can tell whose order it is, so it is nobody's.
 */
async function findBox(
  deps: PaymentDeps,
  { mpUserId, clients }: Account,
  terminalId: string,
  boxOf: BoxOfTerminal,
): Promise<PosWithStore | undefined> {
  const { db } = deps.database
  const mpPosId = await boxOf(terminalId)
  if (mpPosId !== undefined) {
    const boxes = await findBoxesOfProvider(db, clients, mpPosId)
    return boxes.length === 1 ? boxes[0] : undefined
  }
  const last = await findLastOrderOnTerminal(db, clients, mpUserId, terminalId)
  return last && findPos(db, last.client, last.caja_id)
}

/** As long as the provider waits when an order does not say. */
const defaultExpirationMinutes = 15

/**
 * Gives an order of ours that only the provider knows a row, with what the provider says of it. Under the box's lock, as
 * every sale of the box: an equal sale that is being made at this moment either finds the row or is found here.
 */
async function adopt(
  deps: PaymentDeps,
  account: Account,
  box: PosWithStore,
  found: FoundOrder,
  content: Content,
  source: EvidenceSource,
): Promise<Meeting> {
  const { evidence } = found
  const { client } = box
  const meeting = await deps.database.transaction(async (trx) => {
    if (!(await noteFoundOrder(trx, client, box.id))) return 'stranger'
    const waiting = await findWaiting(trx, account, content)
    if (waiting) return { waiting }
    const now = deps.now()
    const site = await findSite(trx, account.mpUserId)
    const text = await erpReference(trx, account, content.reference)
    const madeAt = found.createdAt === null || found.createdAt > now ? now : found.createdAt
    const sale = saleKey(client, account.mpUserId, {
      cajaId: box.external_id,
      externalReference: text,
      amountCents: content.amountCents,
    })
    const minutes = Math.min(180, Math.max(1, found.expirationMinutes ?? defaultExpirationMinutes))
    const row = await insertOrder(trx, {
      // The id that it had, if its till sent no key of its own. It counts as one of this sale: the next one gets another.
      id: providerKey(sale, (await countOrders(trx, sale)) + 1),
      request_key: sale,
      client,
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
      creation: 'confirmed',
      mp_order_id: evidence.mpOrderId,
      status: 'created',
      status_detail: null,
      conflict: null,
      cancel_requested_at: null,
      sent_at: madeAt,
      created_at: madeAt,
      last_updated_at: now,
      expires_at: new Date(madeAt.getTime() + minutes * 60_000),
      checked_at: now,
      next_check_at: now,
      adopted_at: now,
      sender: null,
      sender_until: null,
    })
    await insertOrderEvent(trx, {
      order_id: row.id,
      client,
      at: now,
      source,
      from_status: null,
      to_status: row.status,
      status_detail: null,
      version: row.version,
      note: 'found at the provider',
    })
    const { order } = await moveOrder(deps, trx, row, source, (known) =>
      applyEvidence(known, evidence, deps.now()),
    )
    tellOrderChanged(deps.database, order)
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
  if (meeting === 'stranger') return { kind: 'stranger' }
  if (meeting.waiting) return confirm(deps, meeting.waiting, found, source)
  const { order } = meeting
  deps.log.warn(
    { orderId: order.id, client, mpOrderId: evidence.mpOrderId, status: order.status, source },
    'an order of ours without a row was found at the provider and taken in',
  )
  return { kind: 'adopted', order }
}

/**
 * The ERP's text behind a reference, as far as it can be told: that of an earlier attempt, and else the reference itself.
 * An encoded text cannot be read back.
 */
async function erpReference(trx: Trx, account: Account, reference: string): Promise<string> {
  for (const earlier of [reference, splitReference(reference)?.base]) {
    if (earlier === undefined) continue
    const text = await findTextOfReference(trx, account.mpUserId, earlier)
    if (text !== undefined && attemptOfReference(reference, text) !== undefined) return text
  }
  return reference
}
