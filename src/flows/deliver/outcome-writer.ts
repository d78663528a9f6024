import { isDatabaseUnavailable } from '../../db/database-failures.ts'
import type { Term } from '../../jobs/leader.ts'
import type { QueueLog } from './queue.ts'

/** Proves that no other process has led since an item was read. */
export type Fence = Pick<Term, 'holds' | 'proof'>

export type ItemOutcome<Outcome> = { pk: string; outcome: Outcome }

/** Another process has led since, so it alone decides about the delivery. */
export class DeliveryLeaseLostError extends Error {
  constructor() {
    super('the claim on a delivery was lost')
    this.name = 'DeliveryLeaseLostError'
  }
}

export type OutcomeWriter<Outcome> = {
  add(outcome: ItemOutcome<Outcome>): void
  /** How many are not written yet. */
  size(): number
  /** Resolves when nothing is left to write. */
  idle(): Promise<void>
}

export type OutcomeWriterOptions<Outcome> = {
  /** Writes all of them or none. Rejects with DeliveryLeaseLostError if another process has led since. */
  save(group: readonly ItemOutcome<Outcome>[]): Promise<void>
  /** Called with an outcome whose lease was lost, before onOver. */
  lost(outcome: ItemOutcome<Outcome>): Promise<void>
  /** Called once for each item that is finished: its outcome was written, or its lease was lost. */
  onOver(pks: readonly string[]): void
  /** Called with an item whose outcome cannot be written. This process still has the lease. */
  onRefused(pk: string): Promise<void>
  /** Whether to wait for a database that is unavailable. */
  mayWait(): boolean
  sleep(ms: number): Promise<void>
  log: QueueLog
  limits?: WriterLimits | undefined
}

/** The largest group of a transaction, and how many transactions run at a time. */
export type WriterLimits = { groupSize: number; lanes: number }

const oneByOne: WriterLimits = { groupSize: 500, lanes: 1 }

const retryMs = 1_000

/**
 * Writes outcomes in groups. Outcomes that come during a transaction share the next one, so a fast receiver does not
 * wait for a commit per item. A parallel transaction begins only with a full group. While the database restarts,
 * outcomes wait.
 */
export function createOutcomeWriter<Outcome>(
  options: OutcomeWriterOptions<Outcome>,
): OutcomeWriter<Outcome> {
  const { groupSize, lanes } = options.limits ?? oneByOne
  const waiting: ItemOutcome<Outcome>[] = []
  const writing = new Set<Promise<void>>()
  let unwritten = 0

  const over = (group: readonly ItemOutcome<Outcome>[]) => {
    unwritten -= group.length
    options.onOver(group.map(({ pk }) => pk))
  }

  /** Repeats a write while the database is unavailable. */
  const untilAvailable = async (items: number, work: () => Promise<void>): Promise<void> => {
    for (;;) {
      try {
        return await work()
      } catch (error) {
        if (!isDatabaseUnavailable(error) || !options.mayWait()) throw error
        options.log.warn({ err: error, items }, 'delivery outcomes wait for the database')
        await options.sleep(retryMs)
      }
    }
  }

  const write = async (group: readonly ItemOutcome<Outcome>[]): Promise<void> => {
    try {
      await untilAvailable(group.length, () => options.save(group))
      over(group)
    } catch (error) {
      const [first] = group
      // One item that cannot be written must not block the others.
      if (group.length > 1) for (const one of group) await write([one])
      else if (first) await writeOff(first, error)
    }
  }

  const writeOff = async (one: ItemOutcome<Outcome>, error: unknown) => {
    const { pk } = one
    if (error instanceof DeliveryLeaseLostError) {
      options.log.warn({ pk }, 'delivery taken over by another process')
      await untilAvailable(1, () => options.lost(one)).catch((cause: unknown) =>
        options.log.error({ err: cause, pk }, 'delivery sent under an expired lease not requeued'),
      )
    } else {
      options.log.error({ err: error, pk }, 'delivery outcome not stored')
      await options.onRefused(pk)
    }
    over([one])
  }

  const openLane = async () => {
    const lane = Promise.withResolvers<void>()
    writing.add(lane.promise)
    // Collects all outcomes that one attempt adds at the same time.
    await undefined
    while (waiting.length > 0) await write(waiting.splice(0, groupSize))
    writing.delete(lane.promise)
    lane.resolve()
  }

  return {
    add: (outcome) => {
      waiting.push(outcome)
      unwritten += 1
      if (writing.size === 0 || (writing.size < lanes && waiting.length > groupSize))
        void openLane()
    },
    size: () => unwritten,
    idle: async () => {
      while (writing.size > 0) await Promise.all(writing)
    },
  }
}
