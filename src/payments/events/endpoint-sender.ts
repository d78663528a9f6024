import { type HeldLease, underLease } from '../../jobs/with-lease.ts'
import {
  type EventDelivery,
  findActiveEndpoint,
  findStillSendable,
  listSendable,
  queueEvents,
} from '../../repositories/events/event-deliveries.ts'
import { type EndpointKey, lockEndpoint } from '../../repositories/events/event-endpoints.ts'
import type { PaymentDeps } from '../deps.ts'
import type { EndpointTarget } from '../process/endpoint-client.ts'
import { signingKeys } from './endpoint-secrets.ts'
import { type EndedAttempt, isTaken, outageAfter, recordAttempts } from './record-attempts.ts'
import { viewEvent } from './view-event.ts'

/** Requests of one endpoint at a time, each about another resource. */
const sentAtOnce = 10
/** Events that are read at once. Those that may still be sent begin as soon as a request has ended. */
const loadedAtOnce = 50
/** Results that come within this time are stored together. */
const gatherMs = 100
/** Events that wait beside those of the feed: so many resources can fail while the others go on. */
export const queuedAtMost = 1_000
/** How long the lease is kept without anything to send, so that a steady stream takes it once. */
const lingerMs = 2_000

type EndpointSenderDeps = Pick<
  PaymentDeps,
  'database' | 'encryption' | 'endpointClient' | 'log' | 'now' | 'sleep'
>

/**
 * Sends the events of one endpoint while this process has its lease. What was sent is known to memory alone until its result is stored,
 * so after a kill the same events are sent again, under the same ids. The events of one resource are sent one after the other.
 */
export class EndpointSender {
  readonly #deps: EndpointSenderDeps
  readonly #key: EndpointKey
  readonly #lease: HeldLease
  /** Nothing new is sent. */
  readonly #stopped: AbortSignal
  /** Running requests end. */
  readonly #abandoned: AbortSignal
  /** Read, and not sent yet. */
  #loaded: EventDelivery[] = []
  /** Asks which of them may begin. */
  #beginning: Promise<void> | undefined
  /** How many requests may run at a time. */
  #slots = 1
  /** By the position of the event. */
  readonly #running = new Map<number, Promise<void>>()
  /** Not stored yet. */
  #ended: EndedAttempt[] = []
  /** A request that could not be made. */
  #failure: { cause: unknown } | undefined
  #wake: () => void = () => undefined
  #isWoken = false
  /** Only the end of the last request ends the wait. */
  #isGathering = false

  constructor(
    deps: EndpointSenderDeps,
    key: EndpointKey,
    lease: HeldLease,
    signals: { stopped: AbortSignal; abandoned: AbortSignal },
  ) {
    this.#deps = deps
    this.#key = key
    this.#lease = lease
    this.#stopped = AbortSignal.any([signals.stopped, lease.signal])
    this.#abandoned = AbortSignal.any([signals.abandoned, lease.signal])
  }

  /** There may be something to send. */
  wake(): void {
    if (this.#isGathering && this.#isBusy()) return
    this.#isWoken = true
    this.#wake()
  }

  /** Sends until nothing is due. Rejects with LeaseLostError when another process sends now. */
  async run(): Promise<void> {
    try {
      await this.#sendUntilIdle()
    } finally {
      this.#loaded = []
      await this.#beginning
      // Under the lease, so that no other process sends them meanwhile.
      await Promise.all(this.#running.values())
    }
    await this.#store()
  }

  async #sendUntilIdle(): Promise<void> {
    while (!this.#stopped.aborted) {
      this.#isWoken = false
      await this.#store()
      await this.#load()
      await this.#sendLoaded()
      if (this.#isBusy()) await this.#untilEnded()
      else if (this.#ended.length === 0) {
        await this.#untilWoken(lingerMs)
        if (!this.#isWoken) return
      }
      if (this.#failure) throw this.#failure.cause
    }
  }

  #isBusy(): boolean {
    return this.#running.size > 0 || this.#beginning !== undefined
  }

  /** Reads the events that may be sent now. */
  async #load(): Promise<void> {
    const { database, now } = this.#deps
    const endpoint = await findActiveEndpoint(database.db, this.#key, now(), queuedAtMost)
    if (!endpoint) {
      this.#loaded = []
      return
    }
    const isOut = endpoint.failures >= outageAfter
    // During an outage what was read before waits with the rest.
    if (isOut) this.#loaded = []
    this.#slots = isOut ? 1 : sentAtOnce
    if (endpoint.has_new) await this.#queueNew()
    const known = [...this.#loaded, ...this.#ended.map(({ delivery }) => delivery)]
    const except = [...known.map(({ position }) => position), ...this.#running.keys()]
    const limit = (isOut ? 1 : loadedAtOnce) - except.length
    if (limit <= 0) return
    this.#loaded.push(
      ...(await listSendable(database.db, endpoint.id, { now: now(), limit, except })),
    )
  }

  async #queueNew(): Promise<void> {
    await underLease(this.#deps, this.#lease, async (trx) => {
      const endpoint = await lockEndpoint(trx, this.#key)
      if (endpoint && endpoint.stopped_at === null) {
        await queueEvents(trx, endpoint, this.#deps.now(), queuedAtMost)
      }
    })
  }

  /** Begins as many requests as may run. */
  #sendLoaded(): Promise<void> {
    this.#beginning ??= this.#begin()
      .catch((cause: unknown) => {
        this.#failure ??= { cause }
      })
      .finally(() => {
        this.#beginning = undefined
      })
    return this.#beginning
  }

  /** What a person has changed meanwhile counts from the next request on: a stop, an address, a secret. */
  async #begin(): Promise<void> {
    const { database, encryption, now } = this.#deps
    for (;;) {
      const next = this.#loaded.slice(0, Math.max(0, this.#slots - this.#running.size))
      if (next.length === 0) return
      const positions = next.map(({ position }) => position)
      const endpoint = await findStillSendable(database.db, this.#key, positions, now())
      const mayStart = await this.#lease.permit()
      if (!endpoint || !mayStart || this.#stopped.aborted) {
        this.#loaded = []
        return
      }
      const target = { url: endpoint.url, keys: signingKeys(encryption, endpoint, now()) }
      // Without those that a failure has removed meanwhile.
      const begun = new Set(next.filter((delivery) => this.#loaded.includes(delivery)))
      this.#loaded = this.#loaded.filter((delivery) => !begun.has(delivery))
      for (const delivery of begun) {
        if (!endpoint.sendable.includes(delivery.position)) continue
        this.#running.set(delivery.position, this.#send(target, delivery, mayStart))
      }
    }
  }

  async #send(
    target: EndpointTarget,
    delivery: EventDelivery,
    mayStart: () => boolean,
  ): Promise<void> {
    const event = viewEvent(delivery)
    const message = { id: event.id, body: { ...event, timestamp: event.at } }
    const may = { signal: this.#abandoned, mayStart }
    try {
      const sent = await this.#deps.endpointClient.send(target, message, may)
      if (sent) this.#note({ delivery, sent })
    } catch (cause) {
      this.#failure ??= { cause }
    }
    this.#running.delete(delivery.position)
    await this.#sendLoaded()
    this.wake()
  }

  #note(attempt: EndedAttempt): void {
    this.#ended.push(attempt)
    // It may be an outage, or a `Retry-After`: the others wait until this is stored.
    if (!isTaken(attempt.sent)) this.#loaded = []
  }

  /** Stores the results that there are, in one transaction. */
  async #store(): Promise<void> {
    const ended = this.#ended.splice(0)
    if (ended.length === 0) return
    await underLease(this.#deps, this.#lease, (trx) =>
      recordAttempts(trx, this.#key, ended, this.#deps.now()),
    )
  }

  /** Waits until a request has ended, and a little longer for the others. */
  async #untilEnded(): Promise<void> {
    await this.#untilWoken(undefined)
    this.#isWoken = false
    this.#isGathering = true
    if (this.#isBusy()) await this.#untilWoken(gatherMs)
    this.#isGathering = false
  }

  /** Waits for `wake`, for a stop, or for the time. */
  async #untilWoken(ms: number | undefined): Promise<void> {
    if (this.#isWoken || this.#stopped.aborted) return
    const waiting = new AbortController()
    this.#wake = () => waiting.abort()
    this.#stopped.addEventListener('abort', this.#wake, { once: true })
    const over =
      ms === undefined
        ? new Promise<void>((resolve) => waiting.signal.addEventListener('abort', () => resolve()))
        : this.#deps.sleep(ms, waiting.signal).catch(() => undefined)
    await over
    this.#stopped.removeEventListener('abort', this.#wake)
  }
}
