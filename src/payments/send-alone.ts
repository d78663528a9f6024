import { randomUUID } from 'node:crypto'
import { freeSender, type KeyedTable, keepSender, takeSender } from '../repositories/senders.ts'
import type { PaymentDeps } from './deps.ts'

/** A process that dies while it sends keeps the others from the key no longer than this. */
const claimMs = 5_000

/** The columns of a new row whose own request sends first. */
export function newSender(now: Date): { sender: string; sender_until: Date } {
  return { sender: randomUUID(), sender_until: new Date(now.getTime() + claimMs) }
}

/**
 * Does `work` while nobody else, in any process, sends under the key of this row; undefined when somebody does. `held`
 * is the claim that came with a new row. `work` gets the claim's number, to prove that it was never taken over.
 */
export async function sendAlone<T>(
  deps: PaymentDeps,
  row: { table: KeyedTable; id: string },
  held: string | null,
  work: (sender: string) => Promise<T>,
): Promise<{ result: T } | undefined> {
  const { db } = deps.database
  const { table, id } = row
  const sender = held ?? randomUUID()
  const until = () => new Date(deps.now().getTime() + claimMs)
  if (held === null) {
    const isFree = await takeSender(db, table, id, { sender, now: deps.now(), until: until() })
    if (!isFree) return undefined
  }
  const renewal = setInterval(() => {
    keepSender(db, table, id, { sender, until: until() }).catch((error) =>
      deps.log.warn({ err: error, id }, 'the claim on a key was not prolonged'),
    )
  }, claimMs / 3)
  try {
    return { result: await work(sender) }
  } finally {
    clearInterval(renewal)
    await freeSender(db, table, id, sender).catch((error) =>
      deps.log.warn({ err: error, id }, 'the claim on a key was not given back; it will expire'),
    )
  }
}
