import type { Db } from '../../db/database.ts'
import {
  type DestinationStateRow,
  listDestinationStates,
} from '../../repositories/flows/destination-states.ts'
import type { Sending } from '../flow-service.ts'

const flowing: Sending = {
  state: 'flowing',
  cause: null,
  why: null,
  since: null,
  nextAttemptAt: null,
}

/** What is in the way of each destination of each flow, or of one, by whichever process works it. */
export async function readSending(
  db: Db,
  now: Date,
  flow?: string,
): Promise<(flow: string, destination: string) => Sending> {
  const rows = await listDestinationStates(db, flow)
  const byTarget = new Map(rows.map((row) => [keyOf(row.flow, row.destination), row]))
  return (name, destination) => {
    const row = byTarget.get(keyOf(name, destination))
    return row ? sendingOf(row, now) : flowing
  }
}

/** What was written down may be over: nothing happens at its end when nothing is owed. */
function sendingOf(row: DestinationStateRow, now: Date): Sending {
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
