import { setTimeout as wait } from 'node:timers/promises'
import { createBackgroundJob } from '../../jobs/background-job.ts'
import type { LeaseLimits } from '../../repositories/due-work.ts'
import type { PaymentDeps } from '../deps.ts'
import type { AccountPauses } from './account-pauses.ts'

/** A piece of background work that calls the provider, and whose. */
export type Unit = { id: string; account: number }

export type LanesOptions<U extends Unit> = {
  /** Of the work, for the log. */
  name: string
  pauses: AccountPauses
  /** How often due work is looked for without a `wake`. */
  intervalMs: number
  /** Takes work that is due at `now` for this process, until `leaseUntil`. */
  claim(now: Date, leaseUntil: Date, room: LeaseLimits): Promise<U[]>
  work(unit: U): Promise<void>
  /**
   * Calls of all accounts that were begun a moment ago; one account never has more than half of this under way. What is
   * done with the answers must leave the tills room.
   */
  atOnce: number
  /** A place in a lane is used once in this time: with their number it bounds how often one account is called. */
  restMs?: number
}

export type Lanes<U extends Unit = Unit> = {
  /**
   * Keeps a place for work that is about to be stored, in the lane of the account if that is known already, else as if it were
   * in the fullest one. Undefined when there is none; else what gives the place back.
   */
  reserve(account: number | undefined): (() => void) | undefined
  /**
   * Begins work that came just now and is claimed already, if it has room among what is under way. Answers whether it does:
   * else its claim is to be given back.
   */
  offer(unit: U): boolean
  /** There may be work that is due now. */
  wake(): void
  /** From now on looks for due work by itself. */
  start(): void
  /** Begins nothing new, and ends after what was begun. */
  stop(): Promise<void>
  /** Does all that is due at this moment, except of accounts that rest, and answers how much that was. */
  once(): Promise<number>
  /** Resolves when nothing is being done. */
  idle(): Promise<void>
}

/**
 * A call that takes longer gives up its place among the calls of all accounts, but keeps the one in its account's lane. So
 * accounts that hang do not hold up the others, and calls are begun at a bounded rate however many hang.
 */
const slowMs = 1_000
/** Claimed work of a process that crashed is due again after this time. Another process may begin what takes longer, too. */
export const leaseMs = 5_000
/** What ends at almost the same time is followed by one look for more. */
const gatherMs = 50

/**
 * Works off what is due, each provider account in a lane of its own. Work is claimed in the database at the moment that it
 * can begin, so several processes share it, and what one process cannot begin another one can.
 */
export function createLanes<U extends Unit>(deps: PaymentDeps, options: LanesOptions<U>): Lanes<U> {
  const perAccount = Math.ceil(options.atOnce / 2)
  const stopped = new AbortController()
  const running = new Map<string, Promise<void>>()
  const lanes = new Map<number, number>()
  let recent = 0
  /** Places kept for work whose account is not known yet. */
  let keptForUnknown = 0
  /** Counts what may have made room or brought work. */
  let events = 0
  let nextEvent = Promise.withResolvers<void>()
  let claiming: Promise<unknown> = Promise.resolve()
  let draining: Promise<void> | undefined
  /** The count of events at the end of the latest drain: what came since needs another one. */
  let drainedAt = 0

  const noteEvent = () => {
    events += 1
    nextEvent.resolve()
    nextEvent = Promise.withResolvers()
  }

  const roomAt = (now: Date): LeaseLimits => {
    const exceptions = new Map(options.pauses.widths(now))
    for (const [account, used] of lanes) {
      exceptions.set(account, Math.max(0, (exceptions.get(account) ?? perAccount) - used))
    }
    return { limit: options.atOnce - recent, perAccount, exceptions }
  }

  /** Takes a place in the lane of an account; answers what leaves it. */
  const enter = (account: number) => {
    lanes.set(account, (lanes.get(account) ?? 0) + 1)
    return () => {
      const left = (lanes.get(account) ?? 1) - 1
      if (left > 0) lanes.set(account, left)
      else lanes.delete(account)
    }
  }

  const begin = (unit: U) => {
    // Its claim ran out while it is still being worked on.
    if (running.has(unit.id)) return
    const leaveLane = enter(unit.account)
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
    const resting = options.restMs
      ? deps.sleep(options.restMs, stopped.signal).catch(() => undefined)
      : undefined
    const ended = Promise.all([working, resting]).then(() => {
      running.delete(unit.id)
      leaveLane()
      noteEvent()
    })
    running.set(unit.id, ended)
  }

  /** One claim at a time, or two would take the same room. */
  const take = (now: Date): Promise<number> => {
    const taken = claiming.then(async () => {
      const room = roomAt(now)
      if (room.limit <= 0 || stopped.signal.aborted) return 0
      const units = await options.claim(now, new Date(deps.now().getTime() + leaseMs), room)
      for (const unit of units) begin(unit)
      return units.length
    })
    claiming = taken.catch(() => undefined)
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
      do await drain(deps.now, gatherMs)
      while (events !== drainedAt)
    } catch (error) {
      deps.log.error({ err: error }, `a round of the ${options.name} failed`)
    } finally {
      draining = undefined
    }
  }

  const wake = () => {
    noteEvent()
    if (!stopped.signal.aborted) draining ??= drainByItself()
  }

  // A run ends at once: a drain may take minutes, and due work is looked for meanwhile, too.
  const looking = createBackgroundJob(deps, {
    name: options.name,
    intervalMs: options.intervalMs,
    run: async () => wake(),
  })

  const idle = async () => {
    while (draining || running.size > 0) await Promise.all([draining, ...running.values()])
  }

  const hasRoom = (account: number | undefined): boolean => {
    const { limit, exceptions } = roomAt(deps.now())
    const own =
      account === undefined
        ? Math.min(perAccount, ...exceptions.values()) - keptForUnknown
        : (exceptions.get(account) ?? perAccount)
    return limit > 0 && own > 0 && !stopped.signal.aborted
  }

  const keepForUnknown = () => {
    keptForUnknown += 1
    return () => {
      keptForUnknown -= 1
    }
  }

  const reserve = (account: number | undefined) => {
    if (!hasRoom(account)) return undefined
    const free = account === undefined ? keepForUnknown() : enter(account)
    recent += 1
    return () => {
      free()
      recent -= 1
      noteEvent()
    }
  }

  const offer = (unit: U): boolean => {
    if (!hasRoom(unit.account)) return false
    begin(unit)
    return true
  }

  return {
    reserve,
    offer,
    wake,
    idle,
    start: looking.start,
    once() {
      const now = deps.now()
      return drain(() => now, 0)
    },
    async stop() {
      stopped.abort()
      noteEvent()
      await looking.stop()
      await idle()
    },
  }
}
