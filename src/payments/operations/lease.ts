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

/** How long a process that died blocks the others from sending. */
const leaseMs = 5_000
/** After this time without proof another process may have taken the lease. */
const freshMs = leaseMs - 500
/** The sweeper takes an open operation up this long after its lease has ended. */
const checkAfterMs = 1_000

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

/** The exclusive right to send under the key of a row. */
export type SendLease = {
  /** The owner of the lease in the row. */
  sender: string
  /** It came with the row: nothing was sent under the key before. */
  isNew: boolean
  /** When the latest earlier attempt without an answer began, whose effect may still come; null when all were answered. */
  unansweredAt: Date | null
  /** The same, including the attempts under this lease. */
  doubtfulAt(): Date | null
  /** Proves before each attempt that the lease is still owned. */
  permit: SendPermit
  /** Notes that every attempt under this lease was answered and had no effect. */
  settle(): void
  /** Notes the row as it was written last, which may have released the lease. */
  wrote(row: { sender: string | null }): void
  /** Ends the lease, unless the row as it was written last has released it. Never fails: what is not released expires. */
  release(): Promise<void>
}

/**
 * Takes the exclusive right to send under the key of this row; undefined while another process has it. `newLease` is the lease that
 * came with a new row. It is renewed until it is released.
 *
 * A process may be suspended at any moment and lose its lease meanwhile. So each attempt proves the lease by a statement right
 * before it, which also notes the attempt, and by the time since then at its first byte. Without proof nothing is sent.
 */
export async function takeSendLease(
  deps: PaymentDeps,
  { table, id }: { table: KeyedTable; id: string },
  newLease: NewLease | null,
): Promise<SendLease | undefined> {
  const { db } = deps.database
  const sender = newLease?.sender ?? randomUUID()
  const times = () => {
    const now = deps.now()
    return { now, until: new Date(now.getTime() + leaseMs), checkAt: firstCheckAt(now) }
  }
  const taken =
    newLease === null
      ? await acquireSendLease(db, table, id, sender, times())
      : { unansweredAt: null }
  if (!taken) return undefined
  const renewal = setInterval(() => {
    renewSendLease(db, table, id, sender, times()).catch((error) =>
      deps.log.warn({ err: error, id }, 'lease not renewed'),
    )
  }, leaseMs / 3)
  const { unansweredAt } = taken
  let noted = newLease
  let doubtfulAt = newLease?.begunAt ?? unansweredAt
  let isSettled = false
  let isFree = false
  return {
    sender,
    isNew: newLease !== null,
    unansweredAt,
    doubtfulAt: () => doubtfulAt,
    async permit() {
      const first = noted
      noted = null
      // The statement that wrote the row has noted this attempt and proven the lease.
      if (first && isFresh(first, deps.now())) {
        return () => performance.now() - first.provenMs < freshMs
      }
      const askedAt = performance.now()
      const begun = times()
      if (!(await beginAttempt(db, table, id, sender, begun))) return undefined
      doubtfulAt = begun.now
      isSettled = false
      return () => performance.now() - askedAt < freshMs
    },
    settle() {
      doubtfulAt = unansweredAt
      isSettled = true
    },
    wrote(row) {
      isFree = row.sender !== sender
    },
    async release() {
      clearInterval(renewal)
      if (isFree) return
      await releaseSendLease(db, table, id, sender, isSettled ? unansweredAt : undefined).catch(
        (error) => deps.log.warn({ err: error, id }, 'lease not released; it expires'),
      )
    },
  }
}

/** By both clocks: only one of them advances while the machine is suspended. */
function isFresh({ begunAt, provenMs }: NewLease, now: Date): boolean {
  const ageMs = Math.max(performance.now() - provenMs, now.getTime() - begunAt.getTime())
  return ageMs < freshMs / 2
}
