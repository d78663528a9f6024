import { randomUUID } from 'node:crypto'
import type { SendPermit } from '../outbound.ts'
import {
  beginAttempt,
  freeSender,
  type KeyedTable,
  keepSender,
  takeSender,
} from '../repositories/senders.ts'
import type { PaymentDeps } from './deps.ts'

/** A process that dies while it sends keeps the others from the key no longer than this. */
const claimMs = 5_000
/** A claim that was proven longer ago than this may be somebody else's when the first byte goes out. */
const freshMs = claimMs - 500
/** What a process left open is taken up this soon after its claim has ended. */
const lookAfterMs = 1_000

/** The columns of a new row whose own request sends first. */
export function newSender(now: Date): { sender: string; sender_until: Date } {
  return { sender: randomUUID(), sender_until: new Date(now.getTime() + claimMs) }
}

/** When the background takes up a row whose first request has said nothing of it since `now`. */
export function firstLook(now: Date): Date {
  return new Date(now.getTime() + claimMs + lookAfterMs)
}

/** The right to send under the key of a row, while it lasts. */
export type Claim = {
  /** Names the one who sends, in the row. */
  sender: string
  /** When the latest attempt of before was begun that nobody answered; null when all were. Its effect may still come. */
  unansweredAt: Date | null
  /** The same, of this claim's own attempts too. */
  doubtfulAt(): Date | null
  /** For the call: each attempt proves first that the claim is still held. */
  permit: SendPermit
  /** Every attempt of this claim was answered and had no effect; what is left unanswered is what was so before. */
  settle(): void
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
  held: string | null,
  work: (claim: Claim) => Promise<T>,
): Promise<{ result: T } | undefined> {
  const { db } = deps.database
  const { table, id } = row
  const sender = held ?? randomUUID()
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
  let doubtfulAt = unansweredAt
  let isSettled = false
  try {
    const result = await work({
      sender,
      unansweredAt,
      doubtfulAt: () => doubtfulAt,
      async permit() {
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
    })
    return { result }
  } finally {
    clearInterval(renewal)
    await freeSender(db, table, id, sender, isSettled ? unansweredAt : undefined).catch((error) =>
      deps.log.warn({ err: error, id }, 'the claim on a key was not given back; it will expire'),
    )
  }
}
