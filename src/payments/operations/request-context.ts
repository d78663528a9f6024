import { AppError, type ErrorExtra } from '../../errors/app-error.ts'
import { type Actor, type PaymentDeps, serviceActor } from '../deps.ts'
import type { EvidenceSource } from '../orders/apply-evidence.ts'

/** What is done for somebody: why, in whose name and until when. It travels as one value down to the last call. */
export type Errand = {
  source: EvidenceSource
  actor: Actor
  /** By `deps.stopwatch`. Waits, and calls that are repeated, share it: none of them starts the time anew. */
  untilMs: number
  /** Whether somebody still waits for the answer, as far as this machine has been told. */
  isHeard: () => Promise<boolean>
}

/** A till gets its answer within this time whatever the provider does. */
export const answerWithinMs = 24_000
/** What comes after it for writing down how far the work came, and for the way back. */
const lastWordMs = 500
/** What a cancel or refund may spend on reading its order first: it needs the rest itself. */
export const lookFirstMs = 6_000
/** A call to the provider with less time than this is not worth beginning. */
export const shortestCallMs = 1_000
/** Longest look at one order, for whoever has no less time. */
const lookMs = 15_000

type Stopwatch = Pick<PaymentDeps, 'stopwatch'>

const always = async () => true

/** The errand of a request that came at `arrivedMs`. */
export function errandOfRequest(
  actor: Actor,
  arrivedMs: number,
  isHeard: Errand['isHeard'] = always,
): Errand {
  return { source: 'api', actor, untilMs: arrivedMs + answerWithinMs, isHeard }
}

/** What the service does by itself, or for somebody who is promised no time; a look has 15 s. */
export function ownErrand(
  deps: Pick<PaymentDeps, 'stopwatch' | 'now'>,
  source: EvidenceSource,
  withinMs = lookMs,
): Errand {
  return {
    source,
    actor: serviceActor(deps.now()),
    untilMs: deps.stopwatch() + withinMs,
    isHeard: always,
  }
}

/** A part of an errand, which takes no longer than `ms`. */
export function within(deps: Stopwatch, errand: Errand, ms: number): Errand {
  return { ...errand, untilMs: Math.min(errand.untilMs, deps.stopwatch() + ms) }
}

/** What is done along the way, but not for whoever sent us. */
export function byService(deps: Pick<PaymentDeps, 'now'>, errand: Errand): Errand {
  return { ...errand, actor: serviceActor(deps.now()) }
}

/** What is left of the errand's time; less than nothing when it is over. */
export function timeLeftMs(deps: Stopwatch, { untilMs }: Errand): number {
  return untilMs - deps.stopwatch()
}

/**
 * Right before money is moved: throws when whoever asked has hung up. He may have asked another process meanwhile, and have his
 * answer. The error says `undecided`, so that it denies nobody else what he asks for: nobody hears it.
 */
export async function requireHeard({ isHeard }: Errand, undecided: ErrorExtra): Promise<void> {
  if (await isHeard()) return
  throw new AppError('CALLER_GONE', { extra: undecided })
}

/**
 * The outcome of `work`, or `late()` as its failure when the request's time is over before. The work itself goes on: it may
 * hold money.
 */
export async function inTime<T>(
  deps: Stopwatch,
  errand: Errand,
  work: Promise<T>,
  late: () => Error,
): Promise<T> {
  const over = Promise.withResolvers<never>()
  const leftMs = Math.max(0, timeLeftMs(deps, errand) + lastWordMs)
  const timer = setTimeout(() => over.reject(late()), leftMs)
  try {
    return await Promise.race([work, over.promise])
  } finally {
    clearTimeout(timer)
    work.catch(() => undefined)
  }
}
