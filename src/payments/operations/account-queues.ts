import { setTimeout as wait } from 'node:timers/promises'
import { type Backoff, backoffMs } from '../../domain/backoff.ts'
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

/**
 * A slower call no longer counts among the calls of all accounts, but still in its account's queue. So accounts that
 * hang do not delay others, and the rate of new calls stays limited.
 */
const slowMs = 1_000
/** Leased work of a crashed process is due again after this time. Another process may also begin work that takes longer. */
export const workLeaseMs = 5_000
/** Work that ends within this time is followed by one search for more. */
const collectMs = 50
/** A search that brings so many units left others behind, probably: it is followed by the next when half of them have ended. */
const backlogFrom = 4

/**
 * Does due work with a queue for each provider account. Work is leased in the database when it can begin, so several
 * processes share it.
 */
export class AccountQueues<U extends Unit> {
  readonly #deps: PaymentDeps
  readonly #options: AccountQueuesOptions<U>
  readonly #perAccount: number
  readonly #stopped = new AbortController()
  readonly #running = new Map<string, Promise<void>>()
  /** How many places of each account are taken. */
  readonly #active = new Map<number, number>()
  /** Calls that began a moment ago, over all accounts. */
  #recent = 0
  /** Places reserved for work whose account is not known yet. */
  #keptForUnknown = 0
  /** Counts events that may have freed capacity or brought work. */
  #events = 0
  #nextEvent = Promise.withResolvers<void>()
  #leasing: Promise<unknown> = Promise.resolve()
  #isLeasing = false
  #draining: Promise<void> | undefined
  /** The count of events at the end of the latest drain: later events need another one. */
  #drainedAt = 0

  constructor(deps: PaymentDeps, options: AccountQueuesOptions<U>) {
    this.#deps = deps
    this.#options = options
    this.#perAccount = Math.ceil(options.atOnce / 2)
  }

  /**
   * Reserves a place for work that is about to be stored: in the queue of the account, or, if that is not known yet, as
   * in the fullest queue. Undefined without a free place; otherwise a function that frees it.
   */
  reserve(account: number | undefined): (() => void) | undefined {
    const { limit, perAccount, exceptions } = this.#limitsAt(this.#deps.now())
    const own =
      account === undefined
        ? Math.min(perAccount, ...exceptions.values())
        : (exceptions.get(account) ?? perAccount)
    if (this.#isLeasing || limit <= 0 || own <= 0 || this.#stopped.signal.aborted) return undefined
    const leave = account === undefined ? this.#keepForUnknown() : this.#enter(account)
    this.#recent += 1
    return () => {
      leave()
      this.#recent -= 1
      this.#noteEvent()
    }
  }

  /**
   * Begins work that is leased already, if there is capacity. Returns whether it did; otherwise the caller releases the
   * lease.
   */
  offer(unit: U): boolean {
    const widths = this.#options.pauses.widths(this.#deps.now())
    const isFree = this.#recent < this.#options.atOnce && this.#freeOf(unit.account, widths) > 0
    if (!isFree || this.#stopped.signal.aborted) return false
    this.#begin(unit)
    return true
  }

  /** Searches for due work now. Returns at once: it may take minutes, and what becomes due meanwhile is found too. */
  wake(): void {
    this.#noteEvent()
    if (!this.#stopped.signal.aborted) this.#draining ??= this.#drainByItself()
  }

  /** Begins nothing new, and resolves when the running work has ended. */
  async stop(): Promise<void> {
    this.#stopped.abort()
    this.#noteEvent()
    await this.idle()
  }

  /** Does everything that is due now, except for paused accounts. Returns the number of units. */
  once(): Promise<number> {
    const now = this.#deps.now()
    return this.#drain(() => now, 0)
  }

  /** Resolves when no work is running. */
  async idle(): Promise<void> {
    while (this.#draining || this.#running.size > 0) {
      await Promise.all([this.#draining, ...this.#running.values()])
    }
  }

  #noteEvent(): void {
    this.#events += 1
    this.#nextEvent.resolve()
    this.#nextEvent = Promise.withResolvers()
  }

  /** Places of an account that no work has. */
  #freeOf(account: number, widths: ReadonlyMap<number, number>): number {
    return (widths.get(account) ?? this.#perAccount) - (this.#active.get(account) ?? 0)
  }

  /** What a lease call may take. A place reserved for an unknown account counts for each one. */
  #limitsAt(now: Date): LeaseLimits {
    const widths = this.#options.pauses.widths(now)
    const exceptions = new Map<number, number>()
    for (const account of [...widths.keys(), ...this.#active.keys()]) {
      exceptions.set(account, Math.max(0, this.#freeOf(account, widths) - this.#keptForUnknown))
    }
    return {
      limit: this.#options.atOnce - this.#recent,
      perAccount: Math.max(0, this.#perAccount - this.#keptForUnknown),
      exceptions,
    }
  }

  /** Takes a place in the queue of an account. Returns a function that frees it. */
  #enter(account: number): () => void {
    this.#active.set(account, (this.#active.get(account) ?? 0) + 1)
    return () => {
      const left = (this.#active.get(account) ?? 1) - 1
      if (left > 0) this.#active.set(account, left)
      else this.#active.delete(account)
    }
  }

  #keepForUnknown(): () => void {
    this.#keptForUnknown += 1
    return () => {
      this.#keptForUnknown -= 1
    }
  }

  #begin(unit: U): void {
    // Its lease expired while the work is still running.
    if (this.#running.has(unit.id)) return
    const leaveQueue = this.#enter(unit.account)
    const { restMs } = this.#options
    const rest = restMs
      ? this.#deps.sleep(restMs, this.#stopped.signal).catch(() => undefined)
      : undefined
    const ended = Promise.all([this.#work(unit), rest]).then(() => {
      this.#running.delete(unit.id)
      leaveQueue()
      this.#noteEvent()
    })
    this.#running.set(unit.id, ended)
  }

  /** Does the work. It counts among the recent calls until it ends, or until it counts as slow. */
  async #work(unit: U): Promise<void> {
    this.#recent += 1
    let isRecent = true
    const leavePlace = () => {
      if (isRecent) this.#recent -= 1
      isRecent = false
      this.#noteEvent()
    }
    const slow = setTimeout(leavePlace, slowMs)
    try {
      await this.#options.work(unit)
    } catch (error) {
      this.#deps.log.error({ err: error, unit: unit.id }, `${this.#options.name} failed`)
    } finally {
      clearTimeout(slow)
      leavePlace()
    }
  }

  /** One lease call at a time, and no new reservation meanwhile: both would use the same capacity. */
  #take(now: Date): Promise<number> {
    const taken = this.#leasing.then(() => this.#lease(now))
    this.#leasing = taken.catch(() => undefined)
    return taken
  }

  async #lease(now: Date): Promise<number> {
    const limits = this.#limitsAt(now)
    if (limits.limit <= 0 || this.#stopped.signal.aborted) return 0
    this.#isLeasing = true
    try {
      const until = new Date(this.#deps.now().getTime() + workLeaseMs)
      const units = await this.#options.lease(now, until, limits)
      for (const unit of units) this.#begin(unit)
      return units.length
    } finally {
      this.#isLeasing = false
    }
  }

  async #drain(now: () => Date, pauseMs: number): Promise<number> {
    for (let taken = 0; ; ) {
      const seen = this.#events
      const event = this.#nextEvent.promise
      const units = await this.#take(now())
      taken += units
      if (units === 0 && this.#running.size === 0 && this.#events === seen) {
        this.#drainedAt = seen
        return taken
      }
      await event
      if (pauseMs > 0) await this.#collect(pauseMs, units)
    }
  }

  /** Until a further search is worth it: half of what the latest one brought has ended, or a moment has passed. */
  async #collect(pauseMs: number, brought: number): Promise<void> {
    const moment = { isOver: false }
    const over = wait(pauseMs).then(() => {
      moment.isOver = true
    })
    if (brought < backlogFrom) return over
    const enough = this.#running.size - brought / 2
    while (!moment.isOver && this.#running.size > enough) {
      await Promise.race([over, this.#nextEvent.promise])
    }
  }

  async #drainByItself(): Promise<void> {
    try {
      do await this.#drain(this.#deps.now, collectMs)
      while (this.#events !== this.#drainedAt)
    } catch (error) {
      this.#deps.log.error({ err: error }, `${this.#options.name}: round failed`)
    } finally {
      this.#draining = undefined
    }
  }
}
