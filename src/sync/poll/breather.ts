import { createTurns } from '../../db/event-loop-turns.ts'

/** Longest stretch of work on items before others get their turn: tills are served by the same thread. */
const longestStretchMs = 10

/** What loops over items await at each step; all flows of the process share their turns. */
export const breathe = createTurns(longestStretchMs)
