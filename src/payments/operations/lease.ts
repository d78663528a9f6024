import { randomUUID } from 'node:crypto'
import type { SendPermit } from '../../outbound/outbound.ts'
import {
  beginAttempt,
  freeSender,
  type KeyedTable,
  keepSender,
  takeSender,
} from '../../repositories/operations/send-leases.ts'
import type { PaymentDeps } from '../deps.ts'

/** A process that dies while it sends keeps the others from the key no longer than this. */
const claimMs = 5_000
/** A claim that was proven longer ago than this may be somebody else's when the first byte goes out. */
const freshMs = claimMs - 500
/** What a process left open is taken up this soon after its claim has ended. */
const lookAfterMs = 1_000

/** The columns of a new row whose own request sends at once: its first attempt is noted with the intent. */
export function newSender(now: Date) {
  const sender: string = randomUUID()
  return { sender, sender_until: new Date(now.getTime() + claimMs), unanswered_at: now }
}

/** The claim that came with a new row. */
export type Held = {
  sender: string
  /** When the attempt was begun that the row notes. */
  begunAt: Date
  /** When the row was asked for, by performance.now(): from then on the claim is proven. */
  provenMs: number
}

/** The claim of a row that was just written with `newSender`; `provenMs` is when that was asked for. */
export function heldWith(row: { sender: string | null; created_at: Date }, provenMs: number): Held {
  return { sender: row.sender as string, begunAt: row.created_at, provenMs }
}

/** When the background takes up a row whose first request has said nothing of it since `now`. */
export function firstLook(now: Date): Date {
  return new Date(now.getTime() + claimMs + lookAfterMs)
}

/** The right to send under the key of a row, while it lasts. */
export type Claim = {
  /** Names the one who sends, in the row. */
  sender: string
  /** It came with the row: nobody has sent under the key before. */
  isNew: boolean
  /** When the latest attempt of before was begun that nobody answered; null when all were. Its effect may still come. */
  unansweredAt: Date | null
  /** The same, of this claim's own attempts too. */
  doubtfulAt(): Date | null
  /** For the call: each attempt proves first that the claim is still held. */
  permit: SendPermit
  /** Every attempt of this claim was answered and had no effect; what is left unanswered is what was so before. */
  settle(): void
  /** The row as it was written last, which may have given the claim back. */
  wrote(row: { sender: string | null }): void
}

/**
 * Does `work` while nobody else, in any process, sends under the key of this row; undefined when somebody does. `held` is
 * the claim that came with a new row.
 *
 * A process may stand still at any moment, and find its claim taken over when it goes on. So each attempt proves the claim
 * by a statement right before it, which also notes that an attempt has begun; and once more by the time since then at its
 * first byte. What cannot be proven is not sent.
 */
export async function sendAlone<T>(
  deps: PaymentDeps,
  row: { table: KeyedTable; id: string },
  held: Held | null,
  work: (claim: Claim) => Promise<T>,
): Promise<{ result: T } | undefined> {
  const { db } = deps.database
  const { table, id } = row
  const sender = held?.sender ?? randomUUID()
  const times = () => {
    const now = deps.now()
    return { now, until: new Date(now.getTime() + claimMs), lookAt: firstLook(now) }
  }
  const taken =
    held === null ? await takeSender(db, table, id, sender, times()) : { unansweredAt: null }
  if (!taken) return undefined
  const renewal = setInterval(() => {
    keepSender(db, table, id, sender, times()).catch((error) =>
      deps.log.warn({ err: error, id }, 'the claim on a key was not prolonged'),
    )
  }, claimMs / 3)
  const { unansweredAt } = taken
  let noted = held
  let doubtfulAt = held?.begunAt ?? unansweredAt
  let isSettled = false
  let isFree = false
  try {
    const result = await work({
      sender,
      isNew: held !== null,
      unansweredAt,
      doubtfulAt: () => doubtfulAt,
      async permit() {
        const first = noted
        noted = null
        // The statement that wrote the row has noted this attempt, and proven the claim.
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
    })
    return { result }
  } finally {
    clearInterval(renewal)
    const freed = isFree
      ? undefined
      : freeSender(db, table, id, sender, isSettled ? unansweredAt : undefined)
    await freed?.catch((error) =>
      deps.log.warn({ err: error, id }, 'the claim on a key was not given back; it will expire'),
    )
  }
}

/** By both clocks: of a process that stood still with its machine only one has gone on. */
function isFresh({ begunAt, provenMs }: Held, now: Date): boolean {
  const ageMs = Math.max(performance.now() - provenMs, now.getTime() - begunAt.getTime())
  return ageMs < freshMs / 2
}
