import { type Database, json } from '../../db/database.ts'
import { sentenceOf } from '../../domain/flow-reasons.ts'
import type { DeliveryTarget } from '../../repositories/flows/deliveries.ts'
import {
  deleteDestinationState,
  writeDestinationState,
} from '../../repositories/flows/destination-states.ts'
import { tellDeliveries } from '../../repositories/flows/flow-events.ts'
import type { Gate, GateState } from './gate.ts'
import type { QueueLog } from './queue.ts'

export type GateReportDeps = { database: Database; now: () => Date; log: QueueLog }

export type GateReports = {
  /** Has the state written as it is now: whoever worked the destination before may have left another. */
  write(): void
  /** Writes no more; resolves when nothing is being written. */
  stop(): Promise<void>
}

const againMs = 5_000
/** A receiver that asks for a second of silence again and again must not flood the log. */
const logAgainMs = 60_000

/** Tells operators what a gate does to its destination: each change in the log, and in the database for all processes. */
export function reportGate(
  { database, now, log }: GateReportDeps,
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
    const { state: word, cause, nextAttemptAt } = stateNow()
    if (word === 'flowing') await deleteDestinationState(database.db, target)
    else {
      await writeDestinationState(database.db, {
        ...target,
        state: word,
        cause: cause && sentenceOf(cause, 'en'),
        why: cause && json(cause),
        since: now(),
        next_attempt_at: nextAttemptAt,
      })
    }
    await tellDeliveries(database.db, [target.flow])
  }

  const writeAll = async () => {
    while (isDue && !stopped) {
      isDue = false
      try {
        await writeOnce()
      } catch (error) {
        log.warn({ ...target, err: error }, 'the state of a destination could not be written')
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
    if (isRepeated && state !== 'open' && before !== 'probing') return
    loggedAt.set(state, at)
    const fields = { ...target, ...status, cause }
    if (state === 'open') log.warn(fields, 'a destination is left alone for a while')
    else if (state === 'flowing') log.info(target, 'a destination is sent everything again')
    else if (state !== 'probing') log.info(fields, 'a destination is sent less than is owed')
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
