import { type BackgroundJob, createBackgroundJob } from '../../jobs/background-job.ts'
import { LeaseLostError, withLease } from '../../jobs/with-lease.ts'
import { hasActiveEndpoint, listDueEndpoints } from '../../repositories/events/event-deliveries.ts'
import type { EndpointKey } from '../../repositories/events/event-endpoints.ts'
import type { PaymentDeps } from '../deps.ts'
import { EndpointSender, queuedAtMost } from './endpoint-sender.ts'
import { numberCommitted } from './feed.ts'

/** The feed is read at this interval even without a notification: only moves of orders have one. */
const intervalMs = 1_000
/** The same while all endpoints stand still, or there is none. */
const restMs = 3_000
/** Events that come within this time are numbered and queued together. */
const gatherMs = 200
/** How long a stop waits for answers. What has none by then is sent again by the next process. */
const answersWithinMs = 5_000
/** Connections to the database, so that events do not delay charges. */
const connectionsAtMost = 3

/**
 * Begins a sender for each endpoint that events wait for. The lease of an endpoint keeps other processes from sending to it: they share
 * the endpoints, and the next one goes on 10 s after a process was killed. A sender waits for its own endpoint alone, so a slow one
 * delays no other.
 */
export class EndpointDispatcher {
  readonly #deps: PaymentDeps
  readonly #senders = new Map<string, { sender?: EndpointSender; done: Promise<void> }>()
  readonly #job: BackgroundJob<void>
  readonly #stopped = new AbortController()
  readonly #abandoned = new AbortController()
  #unsubscribe: (() => void) | undefined
  #isAtRest = false

  constructor(deps: PaymentDeps) {
    this.#deps = { ...deps, database: deps.database.withConnectionLimit(connectionsAtMost) }
    this.#job = createBackgroundJob(deps, {
      name: 'event-endpoints',
      intervalMs: restMs,
      untilNextMs: async () => (this.#isAtRest ? restMs : intervalMs),
      run: async (signal) => {
        await this.#dispatch()
        await deps.sleep(gatherMs, signal).catch(() => undefined)
      },
    })
  }

  start(): void {
    const wake = () => this.#job.wake()
    this.#unsubscribe ??= this.#deps.events.subscribe(wake, wake, ['order'])
    this.#job.start()
  }

  /** Ends when running requests have their answers, after 5 s at most. */
  async stop(): Promise<void> {
    this.#unsubscribe?.()
    this.#stopped.abort()
    await this.#job.stop()
    const timer = setTimeout(() => this.#abandoned.abort(), answersWithinMs)
    await this.#settled()
    clearTimeout(timer)
  }

  /** Sends all that is due now, for tests. */
  async sendDue(): Promise<void> {
    await this.#dispatch()
    await this.#settled()
  }

  async #settled(): Promise<void> {
    await Promise.all([...this.#senders.values()].map(({ done }) => done))
  }

  async #dispatch(): Promise<void> {
    const { database, now } = this.#deps
    this.#isAtRest = !(await hasActiveEndpoint(database.db))
    if (this.#isAtRest) return
    await numberCommitted(database)
    for (const key of await listDueEndpoints(database.db, now(), queuedAtMost)) {
      const running = this.#senders.get(key.id)
      if (running) running.sender?.wake()
      else this.#begin(key)
    }
  }

  #begin(key: EndpointKey): void {
    const entry: { sender?: EndpointSender; done: Promise<void> } = { done: Promise.resolve() }
    this.#senders.set(key.id, entry)
    const signals = { stopped: this.#stopped.signal, abandoned: this.#abandoned.signal }
    entry.done = withLease(this.#deps, `event-endpoint:${key.id}`, async (lease) => {
      entry.sender = new EndpointSender(this.#deps, key, lease, signals)
      await entry.sender.run()
    })
      .then(() => undefined)
      .catch((error: unknown) => {
        if (error instanceof LeaseLostError) return
        this.#deps.log.error(
          { err: error, client: key.client, endpoint: key.id },
          'events not sent; the service retries',
        )
      })
      .finally(() => this.#senders.delete(key.id))
  }
}
