import type { ServerResponse } from 'node:http'
import { AppError } from '../errors/app-error.ts'

/** How many reads of lists and figures may run, and how many may wait for that. */
export type ReadLimits = Record<'running' | 'waiting', { perOwner: number; total: number }>

/**
 * A list of 100 orders takes some 10 ms of the event loop, between which charges go on: with two of one client and four in all a
 * charge is hardly slower, with thirty it takes seconds.
 */
const defaults: ReadLimits = {
  running: { perOwner: 2, total: 4 },
  waiting: { perOwner: 100, total: 1_000 },
}
const retryAfterSeconds = 2

type Waiter = { begin: () => void }
/** What an owner has running, and what waits for it, in order of arrival. */
type Owner = { running: number; waiting: Set<Waiter> }

type ReadTurns = {
  /**
   * Waits for its turn. Owners take turns with each other, so that many reads of one delay no other. Returns the function that ends
   * it.
   *
   * @throws RATE_LIMITED when too many wait, CALLER_GONE when the client disconnects meanwhile
   */
  take(
    owner: string,
    response: Pick<ServerResponse, 'once' | 'off' | 'closed'>,
  ): Promise<() => void>
}

export function createReadTurns(limits: ReadLimits = defaults): ReadTurns {
  /** The one whose turn is next comes first. */
  const owners = new Map<string, Owner>()
  let running = 0
  let waiting = 0

  const end = (name: string, owner: Owner) => {
    owner.running -= 1
    running -= 1
    forgetIdle(name, owner)
    beginNext()
  }
  const begin = (name: string, owner: Owner): (() => void) => {
    owner.running += 1
    running += 1
    let isRunning = true
    return () => {
      if (!isRunning) return
      isRunning = false
      end(name, owner)
    }
  }
  const forgetIdle = (name: string, owner: Owner) => {
    if (owner.running === 0 && owner.waiting.size === 0) owners.delete(name)
  }
  const beginNext = () => {
    for (const [name, owner] of owners) {
      if (running >= limits.running.total) return
      const [next] = owner.waiting
      if (!next || owner.running >= limits.running.perOwner) continue
      // The others come first next time.
      owners.delete(name)
      owners.set(name, owner)
      next.begin()
    }
  }

  return {
    async take(name, response) {
      const owner = owners.get(name) ?? { running: 0, waiting: new Set() }
      owners.set(name, owner)
      if (owner.running < limits.running.perOwner && running < limits.running.total) {
        return begin(name, owner)
      }
      const { perOwner, total } = limits.waiting
      if (owner.waiting.size >= perOwner || waiting >= total) {
        forgetIdle(name, owner)
        throw new AppError('RATE_LIMITED', {
          message: 'Too many lists are being read at once; wait as Retry-After says',
          extra: { retryAfterSeconds },
        })
      }
      const turn = Promise.withResolvers<() => void>()
      const leave = () => {
        owner.waiting.delete(waiter)
        waiting -= 1
        response.off('close', giveUp)
      }
      const giveUp = () => {
        leave()
        forgetIdle(name, owner)
        turn.reject(new AppError('CALLER_GONE'))
      }
      const waiter: Waiter = {
        begin() {
          leave()
          turn.resolve(begin(name, owner))
        },
      }
      owner.waiting.add(waiter)
      waiting += 1
      response.once('close', giveUp)
      if (response.closed) giveUp()
      return turn.promise
    },
  }
}
