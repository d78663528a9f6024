import type { Database } from '../../db/database.ts'
import type { Log } from '../../domain/log.ts'
import {
  concerns,
  listSendStops,
  type SendStop,
  stopChannel,
} from '../../repositories/flows/send-stops.ts'
import type { Reason } from '../../texts/reason.ts'
import type { DestinationDefinition } from '../types.ts'
import { type Breaker, CircuitBreaker, neverOpen, type ReceiverHealth } from './circuit-breaker.ts'
import { limiterOf, type RateLimiter } from './rate-limiter.ts'

/** More about an attempt that failed. */
export type AttemptNote = {
  cause?: Reason
  /** The pause that the receiver asked for (Retry-After), in milliseconds. */
  retryAfterMs?: number
  /** The pause concerns the whole receiver, not only this request (503). */
  isForAll?: boolean
  /** Nothing can be sent to the receiver; try again after this time. */
  blockedMs?: number
}

/**
 * Whether attempts start. `open`: none, because of the breaker or a block that no attempt passes. `probing`: one
 * attempt checks whether the receiver is back. `silent`: the receiver asked for a pause.
 */
export type GateState = 'flowing' | 'silent' | 'open' | 'probing'

export type GateStatus = {
  state: GateState
  /** Null while attempts start. */
  cause: Reason | null
  /** Milliseconds until the next attempt may start; null when one may now. */
  waitMs: number | null
}

/** Decides what may be sent to a destination now, by sending stops, rate limit, breaker, and requested pauses. */
export type SendingGate = {
  /** Whether an operator stopped sending. Then nothing starts and nothing counts as an attempt. */
  isStopped(): boolean
  /** How many attempts may start now, and when to ask again if none may. */
  admit(): { starts: number; waitMs: number }
  /**
   * Starts an attempt. Call `report` once with its result. `waitMs` if none may start yet; 0 while sending is
   * stopped.
   */
  begin(): { report(report: ReceiverHealth, note?: AttemptNote): void } | { waitMs: number }
  status(): GateStatus
  /** An operator wants an attempt now: ends an open breaker and a requested pause. The rate limit still applies. */
  tryNow(): void
  /** Removes a block, because a new definition may have fixed it. Returns whether there was one. */
  unblock(): boolean
  /** Replaces the listener. It is called when the state, its reason or its end changes. */
  follow(onChange: () => void): void
}

/** How often a worker checks whether a stop has ended. */
const stopCheckMs = 1_000

/**
 * A longer Retry-After may concern one item only, and no operator could end such a pause. After a minute the next
 * attempt checks again. The item itself waits the full time.
 */
const maxSilenceMs = 60_000
/** Retry-After concerns one request, unless most are throttled: eight of the last ten, or the first three. */
const lastAnswers = 10
const throttledAtLeast = 3
const throttledShare = 0.8

type GateRules = Pick<DestinationDefinition, 'rateLimit' | 'breaker'>

/**
 * With a low rate limit the outages would never lie within the breaker's time. Then the time is twice what so many
 * attempts take.
 */
function breakerOf({ breaker, rateLimit }: GateRules, now: () => Date): Breaker {
  if (!breaker) return neverOpen
  const failuresMs = rateLimit ? (breaker.failures * rateLimit.perMs) / rateLimit.max : 0
  return new CircuitBreaker(
    { ...breaker, withinMs: Math.max(breaker.withinMs, 2 * failuresMs) },
    now,
  )
}

export function createGate(
  definition: GateRules,
  now: () => Date,
  limiter: RateLimiter = limiterOf(definition, now),
  isStopped: () => boolean = () => false,
): SendingGate {
  const breaker = breakerOf(definition, now)
  let silentUntil = 0
  let silenceCause: Reason | null = null
  let blockedUntil = 0
  let blockedCause: Reason | null = null
  const recentReports: boolean[] = []
  let reported = ''
  let notifyChange = () => {}

  const waitMs = () =>
    Math.max(
      silentUntil - now().getTime(),
      blockedUntil - now().getTime(),
      limiter.waitMs(),
      breaker.waitMs(),
      0,
    )

  const stateNow = (): GateState => {
    if (blockedUntil > now().getTime()) return 'open'
    const current = breaker.state()
    if (current !== 'closed') return current === 'open' ? 'open' : 'probing'
    return silentUntil > now().getTime() ? 'silent' : 'flowing'
  }

  const causeOf = (state: GateState) => {
    if (state === 'open' && blockedUntil > now().getTime()) return blockedCause
    if (state === 'open' || state === 'probing') return breaker.cause()
    return state === 'silent' ? silenceCause : null
  }

  const reportChange = () => {
    // Each pause has another end.
    const ends = [silentUntil, blockedUntil, breaker.openUntil() ?? 0]
    const state = stateNow()
    const mark = ends.some((until) => until !== 0)
      ? JSON.stringify([state, causeOf(state), ends])
      : state
    if (mark === reported) return
    reported = mark
    notifyChange()
  }

  const startSilence = (ms: number, cause: Reason | undefined) => {
    const until = now().getTime() + Math.min(ms, maxSilenceMs)
    if (until <= silentUntil) return
    silentUntil = until
    silenceCause = cause ?? null
  }

  /** Returns whether the receiver throttles most attempts. */
  const note = (
    report: ReceiverHealth,
    { cause, retryAfterMs = 0, isForAll = false }: AttemptNote,
  ): boolean => {
    const isThrottled = report === 'throttled' || (report !== 'answered' && retryAfterMs > 0)
    recentReports.push(isThrottled)
    if (recentReports.length > lastAnswers) recentReports.shift()
    const throttled = recentReports.filter(Boolean).length
    const throttlesMost =
      throttled >= throttledAtLeast && throttled >= recentReports.length * throttledShare
    if (retryAfterMs > 0 && (isForAll || throttlesMost)) startSilence(retryAfterMs, cause)
    return throttlesMost
  }

  return {
    isStopped,
    admit: () => {
      if (isStopped()) return { starts: 0, waitMs: stopCheckMs }
      const ms = waitMs()
      return {
        starts: ms > 0 ? 0 : Math.min(limiter.allowance(), breaker.allowance()),
        waitMs: ms,
      }
    },
    begin: () => {
      if (isStopped()) return { waitMs: 0 }
      const ms = waitMs()
      if (ms > 0) return { waitMs: ms }
      const report = breaker.begin()
      // The checks above allowed a start.
      if (!report || !limiter.take()) throw new Error('an attempt began that may not')
      return {
        report: (what, about = {}) => {
          if (about.blockedMs !== undefined) {
            blockedUntil = now().getTime() + about.blockedMs
            blockedCause = about.cause ?? null
          }
          const throttlesMost = what !== 'unknown' && note(what, about)
          // A receiver that throttles every attempt counts as down.
          report(what === 'throttled' && throttlesMost ? 'outage' : what, about.cause)
          reportChange()
        },
      }
    },
    status: () => {
      const state = stateNow()
      const ms = waitMs()
      return {
        state,
        cause: causeOf(state),
        waitMs: ms > 0 && state !== 'flowing' ? ms : null,
      }
    },
    tryNow: () => {
      silentUntil = 0
      blockedUntil = 0
      breaker.tryNow()
      reportChange()
    },
    unblock: () => {
      const wasBlocked = blockedUntil > 0
      blockedUntil = 0
      return wasBlocked
    },
    follow: (onChange) => {
      notifyChange = onChange
    },
  }
}

/** Whether a destination needs approval, as far as this process knows. */
export type ApprovalCheck = {
  /** True: nothing starts. */
  isClosed(): boolean
  /** Returns the rows, or none if they show that the destination needs approval. */
  pass<Row extends { needsApproval: boolean }>(rows: readonly Row[]): readonly Row[]
}

/** How often the worker checks whether the destination was approved. */
export const approvalCheckMs = 500

/**
 * Blocks deliveries while a destination needs approval. Each row that is read shows it (`onClosed` is called once); afterwards
 * the database is asked at intervals.
 */
export function createApprovalCheck(
  needsApproval: () => Promise<boolean>,
  onClosed: () => void = () => undefined,
): ApprovalCheck {
  let closed = false
  let checkedAtMs = 0
  let checking = false

  const check = async () => {
    checking = true
    try {
      closed = await needsApproval()
    } catch {
      // The database is unavailable, so nothing can be delivered either.
    } finally {
      checkedAtMs = performance.now()
      checking = false
    }
  }

  return {
    isClosed() {
      if (closed && !checking && performance.now() - checkedAtMs >= approvalCheckMs) void check()
      return closed
    },
    pass(rows) {
      if (!rows[0]?.needsApproval) return rows
      if (!closed) onClosed()
      closed = true
      checkedAtMs = performance.now()
      return []
    },
  }
}

/** Stops of sending, kept in memory, so that a check needs no statement. */
export type Stops = {
  /** Reads the stops. Call it before anything is sent. Rejects if they cannot be read. */
  start(): Promise<void>
  stop(): Promise<void>
  /** Reads them again now, so that a change which is committed holds in this process. */
  refresh(): Promise<void>
  isStopped(flow: string, destination: string): boolean
}

/** A lost notification is corrected within this time, also where the connection that it came by is lost unnoticed. */
const readAgainMs = 5_000

/**
 * Follows the stops of all processes by notifications. Where other processes may write, it also reads them every
 * five seconds. `onChange` is called when the stops in force change.
 */
export function createStops(
  { database, log }: { database: Database; log: Log },
  onChange: () => void,
): Stops {
  let inForce: readonly SendStop[] = []
  let reading: Promise<void> | undefined
  let isStale = false
  let unlisten: (() => Promise<void>) | undefined
  let timer: NodeJS.Timeout | undefined

  const read = async () => {
    const before = JSON.stringify(inForce)
    inForce = (await listSendStops(database.db)).filter(({ endedAt }) => endedAt === null)
    if (JSON.stringify(inForce) !== before) onChange()
  }

  /** A stop that is notified during a read may be missing in it. */
  const readAll = async () => {
    while (isStale) {
      isStale = false
      await read().catch((error: unknown) =>
        log.warn({ err: error }, 'stopped destinations not read'),
      )
    }
    reading = undefined
  }
  const readAgain = () => {
    isStale = true
    reading ??= readAll()
    return reading
  }

  return {
    async start() {
      unlisten = await database.listen(stopChannel, readAgain, readAgain)
      await read()
      // The embedded database has only one process, which gets every notification.
      if (database.engine === 'pglite') return
      timer = setInterval(readAgain, readAgainMs).unref()
    },
    async stop() {
      clearInterval(timer)
      await unlisten?.()
      unlisten = undefined
      await reading
    },
    refresh: readAgain,
    isStopped: (flow, destination) =>
      inForce.length > 0 && inForce.some((stop) => concerns(stop, flow, destination)),
  }
}
