import { randomUUID } from 'node:crypto'
import type { SendPermit } from '../../outbound/outbound.ts'
import {
  acquireSendLease,
  beginAttempt,
  type KeyedTable,
  releaseSendLease,
  renewSendLease,
} from '../../repositories/operations/send-leases.ts'
import type { PaymentDeps } from '../deps.ts'
import { type RequestContext, timeLeftMs } from '../request-context.ts'

/** How long a process that died blocks the others from sending. */
const leaseMs = 5_000
/** After this time without proof another process may have taken the lease. */
const freshMs = leaseMs - 500
/** The sweeper takes an open operation up this long after its lease has ended. */
const checkAfterMs = 1_000
/** How often a request checks whether another process has finished the operation. */
const recheckMs = 200

/** The lease columns of a new row: its own request sends at once, so the row notes the first attempt. */
export function newLeaseColumns(now: Date) {
  const sender: string = randomUUID()
  return { sender, sender_until: new Date(now.getTime() + leaseMs), unanswered_at: now }
}

/** The lease that came with a new row. */
export type NewLease = {
  sender: string
  /** When the attempt was begun that the row notes. */
  begunAt: Date
  /** When the row was written, by performance.now(): the lease is proven from then on. */
  provenMs: number
}

/** The lease of a row written with `newLeaseColumns`; `provenMs` is when the statement began. */
export function newLeaseOf(
  row: { sender: string | null; created_at: Date },
  provenMs: number,
): NewLease {
  return { sender: row.sender as string, begunAt: row.created_at, provenMs }
}

/** When the sweeper takes up a row whose request has stored nothing since `now`. */
export function firstCheckAt(now: Date): Date {
  return new Date(now.getTime() + leaseMs + checkAfterMs)
}

/** A row whose id is the key at the provider, and its order. */
export type KeyedRow = { table: KeyedTable; id: string; orderId: string }

/**
 * Takes the exclusive right to send under the key of a row. `newLease` is the lease that came with a new row. A request waits, until
 * its deadline, while another process has the lease; the service's own work does not. Undefined when another process still has it.
 */
export async function takeSendLease(
  deps: PaymentDeps,
  row: KeyedRow,
  newLease: NewLease | null,
  context: RequestContext,
): Promise<SendLease | undefined> {
  if (newLease) return new SendLease(deps, row, { ...newLease, newLease, unansweredAt: null })
  for (;;) {
    const sender = randomUUID()
    const taken = await acquireSendLease(deps.database.db, row.table, row.id, sender, times(deps))
    if (taken) return new SendLease(deps, row, { sender, newLease: null, ...taken })
    const waits = context.source === 'api' && timeLeftMs(deps, context) > 0
    if (!waits) return undefined
    await deps.changes.wait(row.orderId, recheckMs)
  }
}

function times({ now }: Pick<PaymentDeps, 'now'>) {
  const at = now()
  return { now: at, until: new Date(at.getTime() + leaseMs), checkAt: firstCheckAt(at) }
}

type Taken = { sender: string; newLease: NewLease | null; unansweredAt: Date | null }

/**
 * The exclusive right to send under the key of a row. It is renewed until it is released: at the end of the scope that holds it by
 * `await using`. Return an awaited value from there, because a promise would still be working then.
 *
 * A process may be suspended at any moment and lose its lease meanwhile. So each attempt proves the lease by a statement right
 * before it, which also notes the attempt, and by the time since then at its first byte. Without proof nothing is sent.
 */
export class SendLease implements AsyncDisposable {
  /** The owner of the lease in the row. */
  readonly sender: string
  /** It came with the row: nothing was sent under the key before. */
  readonly isNew: boolean
  /** When the latest earlier attempt without an answer began, whose effect may still come; null when all were answered. */
  readonly unansweredAt: Date | null
  readonly #deps: PaymentDeps
  readonly #row: KeyedRow
  readonly #renewal: NodeJS.Timeout
  /** The attempt that the new row notes, until it is sent. */
  #notedAttempt: NewLease | null
  #doubtfulAt: Date | null
  /** Every attempt under this lease was answered and had no effect. */
  #isSettled = false
  #isReleased = false

  constructor(deps: PaymentDeps, row: KeyedRow, taken: Taken) {
    this.#deps = deps
    this.#row = row
    this.sender = taken.sender
    this.isNew = taken.newLease !== null
    this.unansweredAt = taken.unansweredAt
    this.#notedAttempt = taken.newLease
    this.#doubtfulAt = taken.newLease?.begunAt ?? taken.unansweredAt
    this.#renewal = setInterval(() => void this.#renew(), leaseMs / 3)
  }

  /** When the latest attempt without an answer began, those under this lease included; null when all were answered. */
  get doubtfulAt(): Date | null {
    return this.#doubtfulAt
  }

  /** Proves before each attempt that the lease is still owned. */
  readonly permit: SendPermit = async () => {
    const noted = this.#notedAttempt
    this.#notedAttempt = null
    // The statement that wrote the row has noted this attempt and proven the lease.
    if (noted && isFresh(noted, this.#deps.now())) {
      return () => performance.now() - noted.provenMs < freshMs
    }
    const askedAt = performance.now()
    const begun = times(this.#deps)
    const { table, id } = this.#row
    if (!(await beginAttempt(this.#deps.database.db, table, id, this.sender, begun))) {
      return undefined
    }
    this.#doubtfulAt = begun.now
    this.#isSettled = false
    return () => performance.now() - askedAt < freshMs
  }

  /** Notes that every attempt under this lease was answered and had no effect. */
  settle(): void {
    this.#doubtfulAt = this.unansweredAt
    this.#isSettled = true
  }

  /** Notes the row as it was written last, which may have released the lease. */
  wrote(row: { sender: string | null }): void {
    this.#isReleased = row.sender !== this.sender
  }

  /** Releases the lease, unless the row as it was written last has done so. Never fails: what is not released expires. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#renewal)
    if (this.#isReleased) return
    const { table, id } = this.#row
    const unansweredAt = this.#isSettled ? this.unansweredAt : undefined
    await releaseSendLease(this.#deps.database.db, table, id, this.sender, unansweredAt).catch(
      (error) => this.#deps.log.warn({ err: error, id }, 'lease not released; it expires'),
    )
  }

  async #renew(): Promise<void> {
    const { table, id } = this.#row
    await renewSendLease(this.#deps.database.db, table, id, this.sender, times(this.#deps)).catch(
      (error) => this.#deps.log.warn({ err: error, id }, 'lease not renewed'),
    )
  }
}

/** By both clocks: only one of them advances while the machine is suspended. */
function isFresh({ begunAt, provenMs }: NewLease, now: Date): boolean {
  const ageMs = Math.max(performance.now() - provenMs, now.getTime() - begunAt.getTime())
  return ageMs < freshMs / 2
}
