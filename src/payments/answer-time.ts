import type { Actor } from './deps.ts'

/** A till gets its answer within this time whatever the provider does. */
export const answerWithinMs = 24_000
/** What a cancel or refund may spend on reading its order first: it needs the rest itself. */
export const lookFirstMs = 6_000
/** A call to the provider with less time than this is not worth beginning. */
export const shortestCallMs = 1_000

/** What is left of it for the request of this actor; less than nothing when it is over. */
export function timeLeftMs(actor: Actor): number {
  return answerWithinMs - (performance.now() - actor.startedMs)
}
