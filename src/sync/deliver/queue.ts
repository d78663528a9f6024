import { createHash } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Database } from '../../db/database.ts'
import {
  countOtherHands,
  forgetHands,
  handsToldMs,
  tellHands,
} from '../../repositories/flows/delivery-workers.ts'
import { createTenures } from './tenure.ts'
import { startWorker, type Work, type Worker } from './worker.ts'

export type DeliveryQueueDeps = {
  database: Database
  now: () => Date
  /** Names this process as the owner of leases. */
  processId: string
  log: QueueLog
  sleep?: (ms: number) => Promise<void>
  /** How often it is looked for what has become due; what is due at once announces itself. */
  pollMs?: number
  leaseMs?: number
}

export type DeliveryQueue = {
  /** Several processes may start together. */
  start(): Promise<void>
  /** Ends all work, as unwork does. A second call changes nothing. */
  stop(options?: { timeoutMs?: number }): Promise<void>
  /** Has what is owed to a destination looked at once the transaction of this flow has committed. A hint only. */
  wake(flow: string, destination: string): void
  /**
   * Works a destination until `unwork`. One process at a time does, by a lease of 10 s; the others stand by. So the
   * concurrency, the rate limit and the breaker of a definition hold over all processes, not for each. Destinations with one
   * `budget` share the lease, so that one process counts their requests.
   */
  work<Row, Outcome>(
    flow: string,
    destination: string,
    work: Work<Row, Outcome>,
    budget?: string,
  ): Promise<void>
  /** Takes no more; attempts under way may end until `timeoutMs` (30 s) and are then let go without being counted. */
  unwork(flow: string, destination: string, options?: { timeoutMs?: number }): Promise<void>
  /** Deliveries that are in hand, over all processes. */
  countActive(): Promise<number>
}

const channel = 'tillbridge_deliveries'
const stopMs = 30_000
const tellMs = 1_000
/** One transaction computes while the other waits for the disk. */
const onServer = { groupSize: 1_000, lanes: 2 }

/**
 * Has the rows of `deliveries` worked that are owed. The row alone says so: there is no job for it, and whoever has the
 * lease of a destination walks over its rows, woken by whoever writes one and once a second by itself.
 */
export function createDeliveryQueue(deps: DeliveryQueueDeps): DeliveryQueue {
  const { database, log, processId } = deps
  const sleep = deps.sleep ?? ((ms: number) => wait(ms))
  const workers = new Map<string, Worker>()
  /** Workers that finish what they have in hand: their queue is not worked anew before that. */
  const stopping = new Map<string, { worker: Worker; stopped: Promise<void> }>()
  const tenures = createTenures({ ...deps, leaseMs: deps.leaseMs ?? 10_000 })
  let unlisten: (() => Promise<void>) | undefined
  let telling: NodeJS.Timeout | undefined
  let told = { inHand: 0, atMs: 0 }

  const inHand = () =>
    [...workers.values(), ...[...stopping.values()].map(({ worker }) => worker)].reduce(
      (sum, worker) => sum + worker.inHand(),
      0,
    )

  /** For the /stats of other processes. */
  const tellOthers = async () => {
    const now = inHand()
    const isFresh = now === 0 || performance.now() - told.atMs < handsToldMs
    if (now === told.inHand && isFresh) return
    told = { inHand: now, atMs: performance.now() }
    await tellHands(database.db, processId, now).catch((error: unknown) =>
      log.warn({ err: error }, 'what this process has in hand could not be told'),
    )
  }

  const startWork = <Row, Outcome>(
    name: string,
    work: Work<Row, Outcome>,
    budget: string | undefined,
  ): Worker => {
    // A name of a budget has no slash, those of queues have one.
    const tenure = tenures.share(`deliver:${budget ?? name}`, () => workers.get(name)?.poke())
    // The embedded database runs one statement at a time, which nobody else may wait for long.
    const settling = database.engine === 'pglite' ? {} : { settling: onServer }
    return startWorker({ tenure, pollMs: deps.pollMs ?? 1_000, sleep, log, ...settling }, work)
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

  const pokeAll = () => {
    for (const worker of workers.values()) worker.poke()
  }

  return {
    start: async () => {
      unlisten = await database.listen(channel, (name) => workers.get(name)?.poke(), pokeAll)
      // The embedded database has one process only.
      if (database.engine === 'pglite') return
      await forgetHands(database.db, processId)
      telling = setInterval(() => void tellOthers(), tellMs).unref()
    },
    stop: async (options) => {
      const timeoutMs = options?.timeoutMs ?? stopMs
      const names = [...workers.keys(), ...stopping.keys()]
      await Promise.all(names.map((name) => stopWorker(name, timeoutMs)))
      await unlisten?.()
      unlisten = undefined
      if (telling) await forgetHands(database.db, processId).catch(() => undefined)
      clearInterval(telling)
      telling = undefined
    },
    wake: (flow, destination) => database.announce(channel, queueName(flow, destination)),
    work: async (flow, destination, work, budget) => {
      const name = queueName(flow, destination)
      await stopping.get(name)?.stopped
      if (workers.has(name)) throw new Error(`the queue ${name} is worked already`)
      workers.set(name, startWork(name, work, budget))
    },
    unwork: (flow, destination, options) =>
      stopWorker(queueName(flow, destination), options?.timeoutMs ?? stopMs),
    countActive: async () =>
      inHand() + (database.engine === 'pglite' ? 0 : await countOtherHands(database.db, processId)),
  }
}

export type QueueLog = {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

const plain = /^[a-z0-9][a-z0-9_-]{0,63}$/

/**
 * The name of a destination's queue, of letters, digits and `_-./`. Different destinations never share
 * one: names of another form, or too long, are hashed, and a hashed name begins like no plain one.
 */
export function queueName(flow: string, destination: string): string {
  if (plain.test(flow) && plain.test(destination)) return `${flow}/${destination}`
  const names = JSON.stringify([flow, destination])
  return `./${createHash('sha256').update(names).digest('hex')}`
}
