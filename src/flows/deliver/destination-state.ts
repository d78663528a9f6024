import type { Database } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import type { Leader } from '../../jobs/leader.ts'
import type { DeliveryTarget } from '../../repositories/flows/deliveries.ts'
import {
  deleteDestinationState,
  writeDestinationState,
} from '../../repositories/flows/destination-states.ts'
import { notifyDeliveries } from '../../repositories/flows/flow-events.ts'
import { sentenceOf } from '../../texts/reason.ts'
import type { QueueLog } from './delivery-worker.ts'
import type { Gate, GateState } from './sending-gate.ts'

export type GateReportDeps = {
  database: Database
  now: () => Date
  leader: Pick<Leader, 'current'>
  log: QueueLog
}

export type GateReports = {
  /** Stores the present state. The process that delivered before may have stored another. */
  write(): void
  /** Stops writing. Resolves when the last write has ended. */
  stop(): Promise<void>
}

const againMs = 5_000
/** A receiver that often asks for a pause of a second must not flood the log. */
const logAgainMs = 60_000

/** Reports the state of a gate to operators: each change in the log, and in the database for all processes. */
export function reportGate(
  { database, now, leader, log }: GateReportDeps,
  target: DeliveryTarget,
  gate: Gate,
): GateReports {
  const loggedAt = new Map<GateState, number>()
  let state = gate.status().state
  let cause: string | null = null
  let isDue = false
  let stopped = false
  let writing: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined

  const stateNow = () => {
    const { waitMs, ...rest } = gate.status()
    const nextAttemptAt = waitMs === null ? null : new Date(now().getTime() + waitMs)
    return { ...rest, nextAttemptAt }
  }

  const writeOnce = async () => {
    const term = leader.current()
    if (!term) return
    const { state: word, cause, nextAttemptAt } = stateNow()
    const at = now()
    await database.transaction(async (trx) => {
      // Only the leader stores the state.
      if (!(await term.holds(trx))) return
      if (word === 'flowing') await deleteDestinationState(trx, target)
      else {
        await writeDestinationState(trx, {
          ...target,
          state: word,
          cause: cause && sentenceOf(cause, 'en'),
          why: cause && json(cause),
          since: at,
          next_attempt_at: nextAttemptAt,
        })
      }
      await notifyDeliveries(trx, [target.flow])
    })
  }

  const writeAll = async () => {
    while (isDue && !stopped) {
      isDue = false
      try {
        await writeOnce()
      } catch (error) {
        log.warn({ ...target, err: error }, 'destination state not stored')
        timer = setTimeout(write, againMs)
      }
    }
    writing = undefined
  }

  const write = () => {
    clearTimeout(timer)
    isDue = true
    if (!stopped) writing ??= writeAll()
  }

  const logState = () => {
    const before = state
    const { cause: why, ...status } = stateNow()
    const words = why && sentenceOf(why, 'en')
    const isSameCause = words === cause
    state = status.state
    cause = words
    if (state === before && (state !== 'open' || isSameCause)) return
    const at = performance.now()
    const isRepeated = at - (loggedAt.get(state) ?? Number.NEGATIVE_INFINITY) < logAgainMs
    const opens = state === 'open' && before !== 'open' && before !== 'probing'
    const ends = state === 'flowing' && before === 'probing'
    if (isRepeated && !opens && !ends) return
    loggedAt.set(state, at)
    const fields = { ...target, ...status, cause }
    if (state === 'open') log.warn(fields, 'sending to a destination suspended')
    else if (state === 'flowing') log.info(target, 'sending to a destination resumed')
    else if (state !== 'probing') log.info(fields, 'sending to a destination slowed down')
  }

  gate.follow(() => {
    if (stopped) return
    logState()
    write()
  })
  return {
    write,
    async stop() {
      stopped = true
      clearTimeout(timer)
      await writing
    },
  }
}
