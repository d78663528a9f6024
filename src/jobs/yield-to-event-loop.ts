import { createTurns } from '../db/event-loop-pauses.ts'

/** The longest work on items before other requests run: charges are served by the same thread. */
const longestStretchMs = 10

/** Loops over items await this at each step. All flows of the process share the time. */
export const yieldToEventLoop = createTurns(longestStretchMs)
