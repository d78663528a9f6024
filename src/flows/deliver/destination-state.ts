import type { Database } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import type { Log } from '../../domain/log.ts'
import type { Leader } from '../../jobs/leader.ts'
import type { DeliveryTarget } from '../../repositories/flows/delivery-target.ts'
import {
  deleteDestinationState,
  writeDestinationState,
} from '../../repositories/flows/destination-states.ts'
import { notifyDeliveries } from '../../repositories/flows/flow-events.ts'
import { sentenceOf } from '../../texts/reason.ts'
import type { GateState, SendingGate } from './sending-gate.ts'

export type GateReportDeps = {
  database: Database
  now: () => Date
  leader: Pick<Leader, 'current'>
  log: Log
}

const againMs = 5_000
/** A receiver that often asks for a pause of a second must not flood the log. */
const logAgainMs = 60_000

/** Reports the state of a gate to operators: each change in the log, and in the database for all processes. */
export class GateReports {
  readonly #deps: GateReportDeps
  readonly #target: DeliveryTarget
  readonly #gate: SendingGate
  readonly #loggedAt = new Map<GateState, number>()
  #state: GateState
  #cause: string | null = null
  #isDue = false
  #isStopped = false
  #writing: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(deps: GateReportDeps, target: DeliveryTarget, gate: SendingGate) {
    this.#deps = deps
    this.#target = target
    this.#gate = gate
    this.#state = gate.status().state
    gate.follow(() => {
      if (this.#isStopped) return
      this.#logState()
      this.write()
    })
  }

  /** Stores the present state. The process that delivered before may have stored another. */
  write(): void {
    clearTimeout(this.#timer)
    this.#isDue = true
    if (!this.#isStopped) this.#writing ??= this.#writeAll()
  }

  /** Stops writing. Resolves when the last write has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearTimeout(this.#timer)
    await this.#writing
  }

  async #writeAll(): Promise<void> {
    while (this.#isDue && !this.#isStopped) {
      this.#isDue = false
      try {
        await this.#writeOnce()
      } catch (error) {
        this.#deps.log.warn({ ...this.#target, err: error }, 'destination state not stored')
        this.#timer = setTimeout(() => this.write(), againMs)
      }
    }
    this.#writing = undefined
  }

  async #writeOnce(): Promise<void> {
    const { database, leader, now } = this.#deps
    const target = this.#target
    const term = leader.current()
    if (!term) return
    const { state, cause, nextAttemptAt } = this.#stateNow()
    const at = now()
    await database.transaction(async (trx) => {
      // Only the leader stores the state.
      if (!(await term.holds(trx))) return
      if (state === 'flowing') await deleteDestinationState(trx, target)
      else {
        await writeDestinationState(trx, {
          ...target,
          state,
          cause: cause && sentenceOf(cause, 'en'),
          why: cause && json(cause),
          since: at,
          next_attempt_at: nextAttemptAt,
        })
      }
      await notifyDeliveries(trx, [target.flow])
    })
  }

  #stateNow() {
    const { waitMs, ...rest } = this.#gate.status()
    const nextAttemptAt = waitMs === null ? null : new Date(this.#deps.now().getTime() + waitMs)
    return { ...rest, nextAttemptAt }
  }

  #logState(): void {
    const { log } = this.#deps
    const before = this.#state
    const { cause: why, ...status } = this.#stateNow()
    const { state } = status
    const cause = why && sentenceOf(why, 'en')
    const isSameCause = cause === this.#cause
    this.#state = state
    this.#cause = cause
    if (state === before && (state !== 'open' || isSameCause)) return
    const at = performance.now()
    const lastAt = this.#loggedAt.get(state) ?? Number.NEGATIVE_INFINITY
    const opens = state === 'open' && before !== 'open' && before !== 'probing'
    const ends = state === 'flowing' && before === 'probing'
    if (at - lastAt < logAgainMs && !opens && !ends) return
    this.#loggedAt.set(state, at)
    const fields = { ...this.#target, ...status, cause }
    if (state === 'open') log.warn(fields, 'sending to a destination suspended')
    else if (state === 'flowing') log.info(this.#target, 'sending to a destination resumed')
    else if (state !== 'probing') log.info(fields, 'sending to a destination slowed down')
  }
}
