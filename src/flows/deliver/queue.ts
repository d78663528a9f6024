import { createHash } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Database } from '../../db/database.ts'
import type { Leader } from '../../jobs/leader.ts'
import { countInFlight, saveInFlight } from '../../repositories/flows/leader-lease.ts'
import { startWorker, type Work, type Worker } from './worker.ts'

export type DeliveryQueueDeps = {
  database: Database
  now: () => Date
  /** Deliveries run while this process leads. */
  leader: Pick<Leader, 'current' | 'follow'>
  log: QueueLog
  sleep?: (ms: number) => Promise<void>
  /** How often workers look for deliveries that became due. New deliveries wake them at once. */
  pollMs?: number
}

export type DeliveryQueue = {
  /** Several processes may start together. */
  start(): Promise<void>
  /** Ends all work, as unwork does. A second call has no effect. */
  stop(options?: { timeoutMs?: number }): Promise<void>
  /** Wakes the worker of a destination when the current transaction commits. It is only a hint. */
  wake(flow: string, destination: string): void
  /** Makes every worker of this process check again what may start. */
  wakeAll(): void
  /**
   * Works a destination until `unwork`, while this process leads. Only the leader sends, so concurrency, rate limit
   * and breaker of a definition hold over all processes.
   */
  work<Row, Outcome>(flow: string, destination: string, work: Work<Row, Outcome>): Promise<void>
  /**
   * Starts nothing more. Attempts under way may end until `timeoutMs` (30 s); later ones are abandoned and not
   * counted.
   */
  unwork(flow: string, destination: string, options?: { timeoutMs?: number }): Promise<void>
  /** Deliveries that are being sent, over all processes. */
  countActive(): Promise<number>
}

const channel = 'tillbridge_deliveries'
const stopMs = 30_000
const noteMs = 1_000
/** One transaction computes while the other waits for the disk. */
const onServer = { groupSize: 1_000, lanes: 2 }

/**
 * Works the waiting rows of `deliveries`. A row is its own job. The leader walks over the rows of each destination:
 * when a writer wakes it, and once a second.
 */
export function createDeliveryQueue(deps: DeliveryQueueDeps): DeliveryQueue {
  const { database, leader, log } = deps
  const sleep = deps.sleep ?? ((ms: number) => wait(ms))
  const workers = new Map<string, Worker>()
  /** Workers that finish their attempts. Their queue is worked again only after that. */
  const stopping = new Map<string, { worker: Worker; stopped: Promise<void> }>()
  let unfollow = () => {}
  let unlisten: (() => Promise<void>) | undefined
  let noting: NodeJS.Timeout | undefined
  let noted = 0

  const inFlight = () =>
    [...workers.values(), ...[...stopping.values()].map(({ worker }) => worker)].reduce(
      (sum, worker) => sum + worker.inFlight(),
      0,
    )

  /** For /stats of other processes. */
  const note = async () => {
    const lease = leader.current()?.proof()
    const count = inFlight()
    if (!lease || count === noted) return
    noted = count
    await saveInFlight(database.db, lease, count).catch((error: unknown) =>
      log.warn({ err: error }, 'claimed deliveries of this process not stored'),
    )
  }

  const startWork = <Row, Outcome>(work: Work<Row, Outcome>): Worker => {
    // The embedded database runs one statement at a time, and other requests must not wait long.
    const writerLimits = database.engine === 'pglite' ? {} : { writerLimits: onServer }
    return startWorker({ leader, pollMs: deps.pollMs ?? 1_000, sleep, log, ...writerLimits }, work)
  }

  const stopWorker = async (name: string, timeoutMs: number) => {
    const worker = workers.get(name)
    if (worker) {
      workers.delete(name)
      const stopped = worker.stop(timeoutMs).finally(() => stopping.delete(name))
      stopping.set(name, { worker, stopped })
    } else {
      await stopping.get(name)?.worker.stop(timeoutMs)
    }
    await stopping.get(name)?.stopped
  }

  const wakeAll = () => {
    for (const worker of workers.values()) worker.wake()
  }

  return {
    start: async () => {
      unlisten = await database.listen(channel, (name) => workers.get(name)?.wake(), wakeAll)
      unfollow = leader.follow(() => {
        noted = 0
        wakeAll()
      })
      noting = setInterval(() => void note(), noteMs).unref()
    },
    stop: async (options) => {
      const timeoutMs = options?.timeoutMs ?? stopMs
      const names = [...workers.keys(), ...stopping.keys()]
      await Promise.all(names.map((name) => stopWorker(name, timeoutMs)))
      unfollow()
      clearInterval(noting)
      await unlisten?.()
      unlisten = undefined
    },
    wakeAll,
    wake: (flow, destination) => database.announce(channel, queueName(flow, destination)),
    work: async (flow, destination, work) => {
      const name = queueName(flow, destination)
      await stopping.get(name)?.stopped
      if (workers.has(name)) throw new Error(`the queue ${name} is worked already`)
      workers.set(name, startWork(work))
    },
    unwork: (flow, destination, options) =>
      stopWorker(queueName(flow, destination), options?.timeoutMs ?? stopMs),
    countActive: async () =>
      leader.current() ? inFlight() : inFlight() + (await countInFlight(database.db, deps.now())),
  }
}

export type QueueLog = {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

const plain = /^[a-z0-9][a-z0-9_-]{0,63}$/

/**
 * The name of a destination's queue: letters, digits and `_-./`. Names of another form, or too long ones, are hashed.
 * A hashed name begins like no plain one, so no two destinations share a queue.
 */
export function queueName(flow: string, destination: string): string {
  if (plain.test(flow) && plain.test(destination)) return `${flow}/${destination}`
  const names = JSON.stringify([flow, destination])
  return `./${createHash('sha256').update(names).digest('hex')}`
}
