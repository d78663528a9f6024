import type { Db } from '../../db/database.ts'
import { type Reason, sentenceOf } from '../../domain/flow-reasons.ts'
import {
  type DestinationStateRow,
  listDestinationStates,
} from '../../repositories/flows/destination-states.ts'
import { listSendStops, type SendStop } from '../../repositories/flows/send-stops.ts'
import type { Sending } from '../flow-service.ts'
import { lastStopEnd, stopOf } from './stop-sending.ts'

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
