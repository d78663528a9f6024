import { setTimeout as wait } from 'node:timers/promises'
import { type Backoff, backoffMs } from '../../domain/backoff.ts'
import { createBackgroundJob } from '../../jobs/background-job.ts'
import { isAnswered, ProviderError } from '../../provider/provider.ts'
import { hasCome, type LeaseLimits } from '../../repositories/due-work.ts'
import type { PaymentDeps } from '../deps.ts'

/** Which provider accounts background work spares for a moment. In memory: each process learns for itself. */
export type AccountPauses = {
  /** How many calls each account in trouble may be sent at once now: none while it pauses, then one that tries it. */
  widths(now: Date): ReadonlyMap<number, number>
  /** When this account may be asked again; undefined when it may be asked now. */
  pausedUntil(mpUserId: number, now: Date): Date | undefined
  /** Learns from a call: `failure` is what it ended with, undefined when it was answered well. */
  note(mpUserId: number, failure: unknown, now: Date): void
}

/** Single failures happen; this many in a row mean that the provider is in trouble. */
const failuresAtMost = 3
/** Short, since an unknown charge waits behind it: a provider that is back must be noticed within seconds. */
const pauses: Backoff = { firstMs: 2_000, longestMs: 4_000 }
/** A provider that asks for hours is asked again sooner: tills wait. */
const longestLimitMs = 120_000

export function createAccountPauses(): AccountPauses {
  /** `untilMs` is 0 for one that has failed, but not often enough to rest. */
  const accounts = new Map<number, { failures: number; untilMs: number }>()

  const pausedUntil = (mpUserId: number, now: Date) => {
    const until = new Date(accounts.get(mpUserId)?.untilMs ?? 0)
    return hasCome(until, now, longestLimitMs) ? undefined : until
  }

  return {
    pausedUntil,
    widths(now) {
      const paused = [...accounts].filter(([, { untilMs }]) => untilMs > 0)
      return new Map(paused.map(([mpUserId]) => [mpUserId, pausedUntil(mpUserId, now) ? 0 : 1]))
    },
    note(mpUserId, failure, now) {
      const cause = providerErrorOf(failure)
      if (cause === undefined || isAnswered(cause)) {
        // A call that was under way with the one that was asked to wait says nothing about afterwards.
        if (!pausedUntil(mpUserId, now)) accounts.delete(mpUserId)
        return
      }
      const before = accounts.get(mpUserId)
      const failures = (before?.failures ?? 0) + 1
      const pause = pauseMs(cause, failures)
      const restUntil = new Date(before?.untilMs ?? 0)
      const paused = hasCome(restUntil, now, longestLimitMs)
        ? Math.min(restUntil.getTime(), now.getTime())
        : restUntil.getTime()
      const untilMs = Math.max(paused, pause > 0 ? now.getTime() + pause : 0)
      accounts.set(mpUserId, { failures, untilMs })
    },
  }
}

function pauseMs(error: ProviderError, failures: number): number {
  if (error.kind === 'rate_limited') {
    return Math.min(longestLimitMs, Math.max(1, error.retryAfterSeconds ?? 2) * 1000)
  }
  return failures < failuresAtMost ? 0 : backoffMs(failures - failuresAtMost + 1, pauses)
}

/** What the provider said, of a failure of ours that carries it as its cause, too. */
export function providerErrorOf(failure: unknown): ProviderError | undefined {
  if (failure instanceof ProviderError) return failure
  if (failure instanceof Error && failure.cause instanceof ProviderError) return failure.cause
  return undefined
}

/** Background work with a provider call, and its account. */
export type Unit = { id: string; account: number }

type AccountQueuesOptions<U extends Unit> = {
  /** The name of the work in the log. */
  name: string
  pauses: AccountPauses
  /** How often due work is searched for without a `wake`. */
  intervalMs: number
  /** Leases work that is due at `now` for this process, until `leaseUntil`. */
  lease(now: Date, leaseUntil: Date, limits: LeaseLimits): Promise<U[]>
  work(unit: U): Promise<void>
  /**
   * The limit of recently begun calls over all accounts; one account has at most half of it. The calls' results must
   * leave capacity for charges.
   */
  atOnce: number
  /** Each of an account's places is used once in this time. With their number it limits the calls of an account per second. */
  restMs?: number
}

type AccountQueues<U extends Unit = Unit> = {
  /**
   * Reserves a place for work that is about to be stored: in the queue of the account, or, if that is not known yet, as
   * in the fullest queue. Undefined without a free place; otherwise a function that frees it.
   */
  reserve(account: number | undefined): (() => void) | undefined
  /**
   * Begins work that is leased already, if there is capacity. Returns whether it did; otherwise the caller releases the
   * lease.
   */
  offer(unit: U): boolean
  /** Searches for due work now. */
  wake(): void
  /** Starts to search for due work at each interval. */
  start(): void
  /** Begins nothing new, and resolves when the running work has ended. */
  stop(): Promise<void>
  /** Does everything that is due now, except for paused accounts. Returns the number of units. */
  once(): Promise<number>
  /** Resolves when no work is running. */
  idle(): Promise<void>
}

/**
 * A slower call no longer counts among the calls of all accounts, but still in its account's queue. So accounts that
 * hang do not delay others, and the rate of new calls stays limited.
 */
const slowMs = 1_000
/** Leased work of a crashed process is due again after this time. Another process may also begin work that takes longer. */
export const workLeaseMs = 5_000
/** Work that ends within this time is followed by one search for more. */
const collectMs = 50

/**
 * Does due work with a queue for each provider account. Work is leased in the database when it can begin, so several
 * processes share it.
 */
export function createAccountQueues<U extends Unit>(
  deps: PaymentDeps,
  options: AccountQueuesOptions<U>,
): AccountQueues<U> {
  const perAccount = Math.ceil(options.atOnce / 2)
  const stopped = new AbortController()
  const running = new Map<string, Promise<void>>()
  const active = new Map<number, number>()
  let recent = 0
  /** Places reserved for work whose account is not known yet. */
  let keptForUnknown = 0
  /** Counts events that may have freed capacity or brought work. */
  let events = 0
  let nextEvent = Promise.withResolvers<void>()
  let leasing: Promise<unknown> = Promise.resolve()
  let isLeasing = false
  let draining: Promise<void> | undefined
  /** The count of events at the end of the latest drain: later events need another one. */
  let drainedAt = 0

  const noteEvent = () => {
    events += 1
    nextEvent.resolve()
    nextEvent = Promise.withResolvers()
  }

  /** Places of an account that no work has. */
  const freeOf = (account: number, widths: ReadonlyMap<number, number>): number =>
    (widths.get(account) ?? perAccount) - (active.get(account) ?? 0)

  /** What a lease call may take. A place reserved for an unknown account counts for each one. */
  const limitsAt = (now: Date): LeaseLimits => {
    const widths = new Map(options.pauses.widths(now))
    const exceptions = new Map<number, number>()
    for (const account of [...widths.keys(), ...active.keys()]) {
      exceptions.set(account, Math.max(0, freeOf(account, widths) - keptForUnknown))
    }
    return {
      limit: options.atOnce - recent,
      perAccount: Math.max(0, perAccount - keptForUnknown),
      exceptions,
    }
  }

  /** Takes a place in the queue of an account. Returns a function that frees it. */
  const enter = (account: number) => {
    active.set(account, (active.get(account) ?? 0) + 1)
    return () => {
      const left = (active.get(account) ?? 1) - 1
      if (left > 0) active.set(account, left)
      else active.delete(account)
    }
  }

  const begin = (unit: U) => {
    // Its lease expired while the work is still running.
    if (running.has(unit.id)) return
    const leaveQueue = enter(unit.account)
    recent += 1
    let isRecent = true
    const leavePlace = () => {
      if (isRecent) recent -= 1
      isRecent = false
      noteEvent()
    }
    const slow = setTimeout(leavePlace, slowMs)
    const working = options
      .work(unit)
      .catch((error) => deps.log.error({ err: error, unit: unit.id }, `${options.name} failed`))
      .finally(() => {
        clearTimeout(slow)
        leavePlace()
      })
    const pausing = options.restMs
      ? deps.sleep(options.restMs, stopped.signal).catch(() => undefined)
      : undefined
    const ended = Promise.all([working, pausing]).then(() => {
      running.delete(unit.id)
      leaveQueue()
      noteEvent()
    })
    running.set(unit.id, ended)
  }

  /** One lease call at a time, and no new reservation meanwhile: both would use the same capacity. */
  const take = (now: Date): Promise<number> => {
    const taken = leasing.then(async () => {
      const limits = limitsAt(now)
      if (limits.limit <= 0 || stopped.signal.aborted) return 0
      isLeasing = true
      try {
        const until = new Date(deps.now().getTime() + workLeaseMs)
        const units = await options.lease(now, until, limits)
        for (const unit of units) begin(unit)
        return units.length
      } finally {
        isLeasing = false
      }
    })
    leasing = taken.catch(() => undefined)
    return taken
  }

  const drain = async (now: () => Date, pauseMs: number): Promise<number> => {
    for (let taken = 0; ; ) {
      const seen = events
      const event = nextEvent.promise
      const units = await take(now())
      taken += units
      if (units === 0 && running.size === 0 && events === seen) {
        drainedAt = seen
        return taken
      }
      await event
      if (pauseMs > 0) await wait(pauseMs)
    }
  }

  const drainByItself = async () => {
    try {
      do await drain(deps.now, collectMs)
      while (events !== drainedAt)
    } catch (error) {
      deps.log.error({ err: error }, `${options.name}: round failed`)
    } finally {
      draining = undefined
    }
  }

  const wake = () => {
    noteEvent()
    if (!stopped.signal.aborted) draining ??= drainByItself()
  }

  // A run ends at once: a drain may take minutes, and new due work is searched for meanwhile.
  const job = createBackgroundJob(deps, {
    name: options.name,
    intervalMs: options.intervalMs,
    run: async () => wake(),
  })

  const idle = async () => {
    while (draining || running.size > 0) await Promise.all([draining, ...running.values()])
  }

  const keepForUnknown = () => {
    keptForUnknown += 1
    return () => {
      keptForUnknown -= 1
    }
  }

  const reserve = (account: number | undefined) => {
    const { limit, perAccount: free, exceptions } = limitsAt(deps.now())
    const own =
      account === undefined
        ? Math.min(free, ...exceptions.values())
        : (exceptions.get(account) ?? free)
    if (isLeasing || limit <= 0 || own <= 0 || stopped.signal.aborted) return undefined
    const leave = account === undefined ? keepForUnknown() : enter(account)
    recent += 1
    return () => {
      leave()
      recent -= 1
      noteEvent()
    }
  }

  const offer = (unit: U): boolean => {
    const widths = new Map(options.pauses.widths(deps.now()))
    const isFree = recent < options.atOnce && freeOf(unit.account, widths) > 0
    if (!isFree || stopped.signal.aborted) return false
    begin(unit)
    return true
  }

  return {
    reserve,
    offer,
    wake,
    idle,
    start: job.start,
    once() {
      const now = deps.now()
      return drain(() => now, 0)
    },
    async stop() {
      stopped.abort()
      noteEvent()
      await job.stop()
      await idle()
    },
  }
}
