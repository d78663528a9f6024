import { createRoom } from '../net/connection-room.ts'

/** Waits until a poll may begin; call the result at its end. Rejects with the reason of the signal when that aborts first. */
export type PollTurns = (signal: AbortSignal) => Promise<() => void>

/** A poll that takes longer, as a first import does, keeps nobody waiting any more. */
const longestMs = 1_000

/**
 * So many polls at a time begin by the clock, in the order of asking, and each place rests for as long as its poll took.
 * Hundreds of flows that are due every second would else come all at once, and have the processor and the database to themselves as long as
 * they are behind: tills come first, and flows are then polled as often as that allows.
 */
export function createPollTurns(places: number): PollTurns {
  const room = createRoom(places)
  return async (signal) => {
    const leave = await room.take(signal)
    const beganAt = performance.now()
    const timer = setTimeout(leave, longestMs).unref()
    return () => {
      clearTimeout(timer)
      setTimeout(leave, Math.min(performance.now() - beganAt, longestMs)).unref()
    }
  }
}
