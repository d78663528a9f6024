import type { Trx } from '../../db/database.ts'
import { isDatabaseUnavailable } from '../../db/database-failures.ts'
import type { QueueLog } from './queue.ts'
import type { Term } from './tenure.ts'

/** An item that this process has in hand, and the right under which it has. */
export type Claim = { pk: string; term: Pick<Term, 'holds' | 'proof'> }

export type Settled<Outcome> = { claim: Claim; outcome: Outcome }

/** Another process has taken the queue over since, so it alone decides about the delivery. */
export class ClaimLostError extends Error {
  constructor() {
    super('the claim on a delivery was lost')
    this.name = 'ClaimLostError'
  }
}

/**
 * Rejects with ClaimLostError when one of the claims is not ours any longer. Until the transaction ends nobody else can make
 * them: what it writes about them stands.
 */
export async function proveClaims(trx: Trx, claims: readonly Claim[]): Promise<void> {
  for (const term of new Set(claims.map((claim) => claim.term))) {
    if (!(await term.holds(trx))) throw new ClaimLostError()
  }
}

export type Settlements<Outcome> = {
  add(settled: Settled<Outcome>): void
  /** How many are not written yet. */
  size(): number
  /** Resolves when nothing is left to write. */
  idle(): Promise<void>
}

export type SettlementOptions<Outcome> = {
  /** Writes all of them, or none, in one transaction. Rejects with ClaimLostError when a claim is no longer ours. */
  settle(group: readonly Settled<Outcome>[]): Promise<void>
  /** Called with an outcome whose claim is no longer ours, before it is over. */
  lost(settled: Settled<Outcome>): Promise<void>
  /** Called once for each claim that is over, whether its outcome was written or its claim was lost. */
  onOver(claims: readonly Claim[]): void
  /** Called with a claim whose outcome cannot be written; it is still ours. */
  onRefused(claim: Claim): Promise<void>
  /** Whether it is worth waiting for a database that is away. */
  isPatient(): boolean
  sleep(ms: number): Promise<void>
  log: QueueLog
  pace?: SettlementPace | undefined
}

/** How many outcomes go into a transaction at most, and how many of these are under way at a time. */
export type SettlementPace = { groupSize: number; lanes: number }

const oneByOne: SettlementPace = { groupSize: 500, lanes: 1 }

const patienceMs = 1_000

/**
 * Writes outcomes in groups: what arrives while a transaction runs goes together into the next, so a fast receiver
 * does not wait for a commit per item. Another transaction beside it begins only with a full group. An answer is not thrown
 * away because the database is restarted.
 */
export function createSettlements<Outcome>(
  options: SettlementOptions<Outcome>,
): Settlements<Outcome> {
  const { groupSize, lanes } = options.pace ?? oneByOne
  const waiting: Settled<Outcome>[] = []
  const writing = new Set<Promise<void>>()
  let unwritten = 0

  const over = (group: readonly Settled<Outcome>[]) => {
    unwritten -= group.length
    options.onOver(group.map(({ claim }) => claim))
  }

  /** Does what writes, again and again while the database is away. */
  const patiently = async (items: number, work: () => Promise<void>): Promise<void> => {
    for (;;) {
      try {
        return await work()
      } catch (error) {
        if (!isDatabaseUnavailable(error) || !options.isPatient()) throw error
        options.log.warn({ err: error, items }, 'outcomes wait for the database')
        await options.sleep(patienceMs)
      }
    }
  }

  const write = async (group: readonly Settled<Outcome>[]): Promise<void> => {
    try {
      await patiently(group.length, () => options.settle(group))
      over(group)
    } catch (error) {
      const [first] = group
      // One bad apple must not spoil the others.
      if (group.length > 1) for (const one of group) await write([one])
      else if (first) await writeOff(first, error)
    }
  }

  const writeOff = async (one: Settled<Outcome>, error: unknown) => {
    const { pk } = one.claim
    if (error instanceof ClaimLostError) {
      options.log.warn({ pk }, 'a delivery was taken over by another process')
      await patiently(1, () => options.lost(one)).catch((cause: unknown) =>
        options.log.error({ err: cause, pk }, 'what was sent under a lost claim is not owed again'),
      )
    } else {
      options.log.error({ err: error, pk }, 'an outcome could not be written')
      await options.onRefused(one.claim)
    }
    over([one])
  }

  const openLane = async () => {
    const lane = Promise.withResolvers<void>()
    writing.add(lane.promise)
    // What an attempt with several items adds at once goes together.
    await undefined
    while (waiting.length > 0) await write(waiting.splice(0, groupSize))
    writing.delete(lane.promise)
    lane.resolve()
  }

  return {
    add: (settled) => {
      waiting.push(settled)
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
