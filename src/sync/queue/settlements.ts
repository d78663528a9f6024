import { isDatabaseUnavailable } from '../../db/failures.ts'
import type { QueueLog } from './queue-log.ts'

/** A wake-up that this process has in hand. */
export type Claim = {
  pk: string
  /** The job of pg-boss, and which of its claims this is; both together are ours alone. */
  id: string
  retryCount: number
}

export type Settled<Outcome> = { claim: Claim; outcome: Outcome }

/** The job is no longer ours: another process took it over, so it alone decides about the delivery. */
export class ClaimLostError extends Error {
  constructor() {
    super('the claim on a delivery was lost')
    this.name = 'ClaimLostError'
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
  /** Called once for each claim that is over, whether its outcome was written or its claim was lost. */
  onOver(claims: readonly Claim[]): void
  /** Called with a claim whose outcome cannot be written; it is still ours. */
  onRefused(claim: Claim): Promise<void>
  /** Whether it is worth waiting for a database that is away. */
  isPatient(): boolean
  sleep(ms: number): Promise<void>
  log: QueueLog
}

const groupSize = 100
const patienceMs = 1_000

/**
 * Writes outcomes in groups: what arrives while one transaction runs goes together into the next, so a fast receiver
 * does not wait for a commit per item. An answer is not thrown away because the database is restarted.
 */
export function createSettlements<Outcome>(
  options: SettlementOptions<Outcome>,
): Settlements<Outcome> {
  const waiting: Settled<Outcome>[] = []
  let writing: Promise<void> | undefined
  let unwritten = 0

  const over = (group: readonly Settled<Outcome>[]) => {
    unwritten -= group.length
    options.onOver(group.map(({ claim }) => claim))
  }

  const write = async (group: readonly Settled<Outcome>[]): Promise<void> => {
    for (;;) {
      try {
        await options.settle(group)
        over(group)
        return
      } catch (error) {
        if (isDatabaseUnavailable(error) && options.isPatient()) {
          options.log.warn({ err: error, items: group.length }, 'outcomes wait for the database')
          await options.sleep(patienceMs)
          continue
        }
        // One bad apple must not spoil the others.
        if (group.length > 1) for (const one of group) await write([one])
        else await writeOff(group, error)
        return
      }
    }
  }

  const writeOff = async (group: readonly Settled<Outcome>[], error: unknown) => {
    for (const { claim } of group) {
      if (error instanceof ClaimLostError) {
        options.log.warn({ pk: claim.pk }, 'a delivery was taken over by another process')
      } else {
        options.log.error({ err: error, pk: claim.pk }, 'an outcome could not be written')
        await options.onRefused(claim)
      }
    }
    over(group)
  }

  const writeAll = async () => {
    while (waiting.length > 0) await write(waiting.splice(0, groupSize))
    writing = undefined
  }

  return {
    add: (settled) => {
      waiting.push(settled)
      unwritten += 1
      writing ??= writeAll()
    },
    size: () => unwritten,
    idle: async () => {
      while (writing) await writing
    },
  }
}
