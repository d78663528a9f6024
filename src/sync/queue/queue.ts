import { setTimeout as wait } from 'node:timers/promises'
import { type JobInsert, PgBoss } from 'pg-boss'
import { type Database, notify, type Trx } from '../../db/database.ts'
import { bossDatabase } from './boss-database.ts'
import {
  beforeAllWaiting,
  bringForward,
  countActiveJobs,
  listActiveJobs,
  type WaitingPlace,
  waitingRows,
} from './job-table.ts'
import { type Pump, startPump, type Work } from './pump.ts'
import type { QueueLog } from './queue-log.ts'
import { queueName } from './queue-name.ts'
import { type Claim, ClaimLostError } from './settlements.ts'
import { createTenure } from './tenure.ts'

export type DeliveryQueueDeps = {
  database: Database
  now: () => Date
  /** Names this process as the owner of leases. */
  processId: string
  log: QueueLog
  sleep?: (ms: number) => Promise<void>
  /** How often delayed wake-ups are looked for; those that are due at once announce themselves. */
  pollMs?: number
  leaseMs?: number
  /** How often lost wake-ups and lost claims are looked for. */
  recoverMs?: number
}

export type WakeUp = { pk: string; delayMs: number }

export type DeliveryQueue = {
  /** Installs or updates pg-boss's tables. Several processes may start together. */
  start(): Promise<void>
  /** Ends all work, as unwork does. A second call changes nothing. */
  stop(options?: { timeoutMs?: number }): Promise<void>
  /** Before the first `wake` for a destination; a second call changes nothing. */
  ensureQueue(flow: string, destination: string): Promise<void>
  /**
   * Has the rows of these keys worked once the transaction commits, or `delayMs` later. A key that already has a wake-up
   * keeps it, brought forward unless there is a delay; one that is being worked is looked at again at the end of it.
   */
  wake(
    trx: Trx,
    flow: string,
    destination: string,
    pks: readonly string[],
    options?: { delayMs?: number },
  ): Promise<void>
  /**
   * Works a destination until `unwork`. One process at a time does, by a lease of 10 s; the others stand by. So the
   * concurrency, the rate limit and the breaker of a definition hold over all processes, not for each.
   */
  work<Row, Outcome>(flow: string, destination: string, work: Work<Row, Outcome>): Promise<void>
  /** Takes no more; attempts under way may end until `timeoutMs` (30 s) and are then given back without being counted. */
  unwork(flow: string, destination: string, options?: { timeoutMs?: number }): Promise<void>
  /** Ends claims together with what the transaction writes about them. Rejects with ClaimLostError if one is not ours. */
  endClaims(
    trx: Trx,
    flow: string,
    destination: string,
    claims: readonly Claim[],
    next: readonly WakeUp[],
  ): Promise<void>
  /** Deliveries that are in hand, over all processes. */
  countActive(): Promise<number>
}

const channel = 'tillbridge_deliveries'
const keysAtOnce = 1_000
const stopMs = 30_000
/** A row without a job is normal for no longer than a transaction takes. */
const lostAfterMs = 30_000

/**
 * The longest that pg-boss keeps an unworked job; a flow may be paused for months. It deletes nothing here anyhow, since
 * its maintenance is off: jobs end by being deleted, and those of a dead process come back with the next lease.
 */
const retentionSeconds = 365 * 24 * 3600
const queueOptions = {
  retryLimit: 100_000,
  retryDelay: 0,
  retentionSeconds,
  // The attempts have limits of their own; this is read by nothing but pg-boss's maintenance.
  expireInSeconds: 24 * 3600 - 1,
  deleteAfterSeconds: 3600,
}

/**
 * Wake-ups for the rows of `deliveries`, kept by pg-boss: durable, one per item, claimed once, delayed at will. The row
 * is the truth about what is owed; a job only says that somebody should look. This module alone speaks with pg-boss.
 */
export function createDeliveryQueue(deps: DeliveryQueueDeps): DeliveryQueue {
  const { database, log } = deps
  const sleep = deps.sleep ?? ((ms: number) => wait(ms))
  const db = bossDatabase(database)
  const boss = new PgBoss({
    db,
    backend: database.engine,
    schema: 'pgboss',
    supervise: false,
    schedule: false,
  })
  boss.on('error', (error) => log.warn({ err: error }, 'pg-boss reports an error'))
  boss.on('warning', (warning) => log.warn({ warning }, 'pg-boss warns'))

  const ensured = new Map<string, Promise<void>>()
  const pumps = new Map<string, Pump>()
  /** Pumps that finish what they have in hand: their queue is not worked anew before that. */
  const stopping = new Map<string, { pump: Pump; stopped: Promise<void> }>()
  let unlisten: (() => Promise<void>) | undefined

  const create = async (name: string) => {
    await boss.createQueue(name, { ...queueOptions, policy: 'exclusive' })
    // For a queue that an older version made.
    await boss.updateQueue(name, queueOptions)
  }

  const ensure = (name: string) => {
    const running = ensured.get(name)
    if (running) return running
    const created = create(name)
    ensured.set(name, created)
    created.catch(() => ensured.delete(name))
    return created
  }

  const insert = async (trx: Trx, name: string, wakeUps: readonly WakeUp[]) => {
    const jobs = wakeUps.map<JobInsert>(({ pk, delayMs }) => ({
      data: { pk },
      singletonKey: pk,
      ...(delayMs > 0 && { startAfter: delayMs / 1_000 }),
    }))
    for (let from = 0; from < jobs.length; from += keysAtOnce) {
      const batch = jobs.slice(from, from + keysAtOnce)
      await db.within(trx, () => boss.insert(name, batch))
    }
    if (wakeUps.some(({ delayMs }) => delayMs <= 0)) await notify(trx, channel, name)
  }

  const wakeAll = async (trx: Trx, name: string, pks: readonly string[], delayMs: number) => {
    await insert(
      trx,
      name,
      pks.map((pk) => ({ pk, delayMs })),
    )
    if (delayMs <= 0) await bringForward(trx, name, pks)
  }

  /** Ends the claims that are still ours; answers the ids of their jobs. */
  const end = async (trx: Trx, name: string, claims: readonly Claim[]): Promise<Set<string>> => {
    const answer = await db.within(trx, () => boss.deleteJob(name, [...claims]))
    // Its published type has no fields; the documentation of deleteJob names this one.
    return new Set((answer as { settled: string[] }).settled)
  }

  const giveBack = (name: string, claims: readonly Claim[], delayMs: number) =>
    database.transaction(async (trx) => {
      const ours = await end(trx, name, claims)
      const wakeUps = claims.filter(({ id }) => ours.has(id)).map(({ pk }) => ({ pk, delayMs }))
      if (wakeUps.length > 0) await insert(trx, name, wakeUps)
    })

  const recover = async (
    target: { queue: string; flow: string; destination: string },
    held: ReadonlySet<string>,
  ) => {
    const active = await listActiveJobs(database.db, target.queue)
    const left = active.filter((id) => !held.has(id))
    if (left.length > 0) {
      await boss.fail(target.queue, left)
      log.warn({ queue: target.queue, items: left.length }, 'deliveries left in hand come back')
    }
    const since = new Date(deps.now().getTime() - lostAfterMs)
    let lost = 0
    let last: WaitingPlace | undefined = beforeAllWaiting
    while (last) {
      const after: WaitingPlace = last
      last = await database.transaction(async (trx) => {
        const options = { since, after, limit: keysAtOnce }
        const { rows } = await waitingRows(target, options).execute(trx)
        const pks = rows.flatMap(({ pk, isLost }) => (isLost ? [pk] : []))
        if (pks.length > 0) await wakeAll(trx, target.queue, pks, 0)
        lost += pks.length
        return rows.length === keysAtOnce ? rows.at(-1) : undefined
      })
    }
    if (lost > 0) log.warn({ queue: target.queue, items: lost }, 'lost wake-ups are replaced')
  }

  const startWork = <Row, Outcome>(
    flow: string,
    destination: string,
    work: Work<Row, Outcome>,
  ): Pump => {
    const name = queueName(flow, destination)
    const tenure = createTenure(
      { ...deps, leaseMs: deps.leaseMs ?? 10_000 },
      `deliver:${name}`,
      () => pumps.get(name)?.poke(),
    )
    return startPump(
      {
        tenure,
        fetch: async (limit) => {
          const jobs = await boss.fetch<{ pk: string }>(name, { batchSize: limit })
          return jobs.map(({ id, retryCount, data }) => ({ id, retryCount, pk: data.pk }))
        },
        giveBack: (claims, delayMs) => giveBack(name, claims, delayMs),
        recover: (held) => recover({ queue: name, flow, destination }, held),
        pollMs: deps.pollMs ?? 1_000,
        recoverMs: deps.recoverMs ?? 60_000,
        sleep,
        log,
      },
      work,
    )
  }

  const stopPump = async (name: string, timeoutMs: number) => {
    const pump = pumps.get(name)
    if (pump) {
      pumps.delete(name)
      const stopped = pump.stop(timeoutMs).finally(() => stopping.delete(name))
      stopping.set(name, { pump, stopped })
    } else {
      await stopping.get(name)?.pump.stop(timeoutMs)
    }
    await stopping.get(name)?.stopped
  }

  return {
    start: async () => {
      await boss.start()
      unlisten = await database.listen(channel, (name) => pumps.get(name)?.poke())
    },
    stop: async (options) => {
      const timeoutMs = options?.timeoutMs ?? stopMs
      const names = [...pumps.keys(), ...stopping.keys()]
      await Promise.all(names.map((name) => stopPump(name, timeoutMs)))
      await unlisten?.()
      unlisten = undefined
      await boss.stop({ graceful: false, close: false })
    },
    ensureQueue: (flow, destination) => ensure(queueName(flow, destination)),
    wake: (trx, flow, destination, pks, options) =>
      wakeAll(trx, queueName(flow, destination), pks, options?.delayMs ?? 0),
    work: async (flow, destination, work) => {
      const name = queueName(flow, destination)
      await ensure(name)
      await stopping.get(name)?.stopped
      if (pumps.has(name)) throw new Error(`the queue ${name} is worked already`)
      pumps.set(name, startWork(flow, destination, work))
    },
    unwork: (flow, destination, options) =>
      stopPump(queueName(flow, destination), options?.timeoutMs ?? stopMs),
    endClaims: async (trx, flow, destination, claims, next) => {
      const name = queueName(flow, destination)
      const ours = await end(trx, name, claims)
      if (ours.size !== claims.length) throw new ClaimLostError()
      if (next.length > 0) await insert(trx, name, next)
    },
    countActive: () => countActiveJobs(database.db),
  }
}
