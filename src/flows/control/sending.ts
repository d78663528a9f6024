import type { Db } from '../../db/database.ts'
import {
  type DestinationStateRow,
  listDestinationStates,
} from '../../repositories/flows/destination-states.ts'
import {
  beginSendStop,
  concerns,
  endSendStop,
  listSendStops,
  type SendStop,
  type StopScope,
} from '../../repositories/flows/send-stops.ts'
import { type Reason, sentenceOf } from '../../texts/reason.ts'
import type { Sending } from '../api/control-types.ts'
import { recordAction, type SwitchDeps } from '../poll/pauses-and-limits.ts'

type State = Omit<Sending, 'stop' | 'startedAt'>

const flowing: State = {
  state: 'flowing',
  cause: null,
  why: null,
  since: null,
  nextAttemptAt: null,
}

/**
 * The state of each destination of each flow, or of one, in any process. A stop comes first: nothing is sent until it
 * ends.
 */
export async function readSending(
  db: Db,
  now: Date,
  flow?: string,
): Promise<(flow: string, destination: string) => Sending> {
  const rows = await listDestinationStates(db, flow)
  const stops = await listSendStops(db)
  const byTarget = new Map(rows.map((row) => [keyOf(row.flow, row.destination), row]))
  return (name, destination) => {
    const row = byTarget.get(keyOf(name, destination))
    const stop = stopOf(stops, name, destination)
    const state = stop ? stoppedBy(stop) : row ? sendingOf(row, now) : flowing
    return { ...state, stop: stop ?? null, startedAt: lastStopEnd(stops, name, destination) }
  }
}

function stoppedBy({ by, reason, since }: SendStop): State {
  const why: Reason = {
    code: 'SENDING_STOPPED',
    data: { by, ...(reason !== null && { said: reason }) },
  }
  return { state: 'stopped', cause: sentenceOf(why, 'en'), why, since, nextAttemptAt: null }
}

/** The stored state may be over. Without waiting deliveries no process updates it at its end. */
function sendingOf(row: DestinationStateRow, now: Date): State {
  const { state, cause, why, since, next_attempt_at: nextAttemptAt } = row
  const isOver = nextAttemptAt !== null && nextAttemptAt <= now
  if (state === 'silent' && isOver) return flowing
  if (state === 'open' && isOver) {
    return { state: 'probing', cause, why, since, nextAttemptAt: null }
  }
  return { state, cause, why, since, nextAttemptAt }
}

function keyOf(flow: string, destination: string): string {
  return JSON.stringify([flow, destination])
}

/**
 * Stops sending to a destination of every flow, to all destinations of a flow, to one of them, or everywhere.
 * Committed before it returns, so it survives a crash after the answer. Returns the stop in force, which may be an
 * earlier one.
 */
export function stopSending(
  deps: SwitchDeps,
  { flow, destination }: StopScope,
  by: { actor: string; reason: string | null },
): Promise<SendStop> {
  const at = deps.now()
  return deps.database.transaction(async (trx) => {
    const { stop, isNew } = await beginSendStop(trx, {
      ...{ flow, destination, since: at },
      ...{ by: by.actor, reason: by.reason },
    })
    if (isNew) {
      const detail = [destination, by.reason].filter((part) => part !== null).join(': ') || null
      await recordAction(deps, trx, {
        at,
        flow,
        action: 'sending stopped',
        actor: by.actor,
        detail,
      })
    }
    return stop
  })
}

/** Ends the stop of exactly this scope. Returns other stops that still cover it. */
export function startSending(
  deps: SwitchDeps,
  scope: StopScope,
  actor: string,
): Promise<SendStop[]> {
  const at = deps.now()
  const { flow, destination } = scope
  return deps.database.transaction(async (trx) => {
    if (await endSendStop(trx, scope, at)) {
      await recordAction(deps, trx, {
        at,
        flow,
        action: 'sending started',
        actor,
        detail: destination,
      })
    }
    return inForce(await listSendStops(trx)).filter((stop) => overlaps(stop, scope))
  })
}

export function inForce(stops: readonly SendStop[]): SendStop[] {
  return stops.filter(({ endedAt }) => endedAt === null)
}

/** The stop of a destination of a flow, the widest first; undefined if it is sent. */
function stopOf(
  stops: readonly SendStop[],
  flow: string,
  destination: string,
): SendStop | undefined {
  return stops.find((stop) => stop.endedAt === null && concerns(stop, flow, destination))
}

/** When the last stop of a destination of a flow ended. Its deliveries wait for the destination only since then. */
function lastStopEnd(stops: readonly SendStop[], flow: string, destination: string): Date | null {
  const ends = stops
    .filter((stop) => concerns(stop, flow, destination))
    .flatMap(({ endedAt }) => (endedAt ? [endedAt.getTime()] : []))
  return ends.length > 0 ? new Date(Math.max(...ends)) : null
}

/** Since when the oldest delivery waits for its destination. Time during a stop does not count. */
export function waitingSince(
  oldestAt: Date | null,
  { startedAt }: { startedAt: Date | null },
): Date | null {
  return oldestAt && startedAt && startedAt > oldestAt ? startedAt : oldestAt
}

function overlaps(one: StopScope, other: StopScope): boolean {
  const overlap = (a: string | null, b: string | null) => a === null || b === null || a === b
  return overlap(one.flow, other.flow) && overlap(one.destination, other.destination)
}
