import type { Actor } from './deps.ts'

/** A till gets its answer within this time whatever the provider does. */
export const answerWithinMs = 24_000
/** What comes after it for writing down how far the work came, and for the way back. */
const lastWordMs = 500
/** What a cancel or refund may spend on reading its order first: it needs the rest itself. */
export const lookFirstMs = 6_000
/** A call to the provider with less time than this is not worth beginning. */
export const shortestCallMs = 1_000

/** What is left of it for the request of this actor; less than nothing when it is over. */
export function timeLeftMs(actor: Actor): number {
  return answerWithinMs - (performance.now() - actor.startedMs)
}

/**
 * The outcome of `work`, or `late()` as its failure when the request's time is over before. The work itself goes on: it may
 * hold money.
 */
export async function inTime<T>(actor: Actor, work: Promise<T>, late: () => Error): Promise<T> {
  const over = Promise.withResolvers<never>()
  const timer = setTimeout(() => over.reject(late()), timeLeftMs(actor) + lastWordMs)
  try {
    return await Promise.race([work, over.promise])
  } finally {
    clearTimeout(timer)
    work.catch(() => undefined)
  }
}
