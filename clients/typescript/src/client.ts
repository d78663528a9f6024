import type { components } from './api.ts'
import { NoAnswerError, TillbridgeError } from './errors.ts'
import {
  type Answer,
  type Connection,
  type Method,
  type PathOf,
  type RequestOptions,
  request,
} from './request.ts'

type Schemas = components['schemas']
type Order = Answer<'get', '/orders/{orderId}'>
export type EventPage = Answer<'get', '/events/feed'>

export type ClientOptions = {
  /** Such as http://127.0.0.1:3000. */
  url: string
  /** The key of the shop. */
  key: string
  /** Of the cashier's sentences. */
  language?: 'es' | 'en' | 'pt'
  /** How often a request without an answer is sent, before NoAnswerError. */
  tries?: number
  timeoutMs?: number
  /** Before a repetition: show the cashier what is going on. */
  onRetry?: (error: TillbridgeError | NoAnswerError) => void
  fetch?: typeof globalThis.fetch
}

/** `idempotencyKey`: make one for each sale, and store it with the sale before you charge. */
export type Charge = Schemas['NewOrder'] & { idempotencyKey: string }
export type Refund = Schemas['RefundOrder'] & { idempotencyKey: string }
export type WaitOptions = {
  /** Each state of the order: show `order.cashier.message`. */
  onChange?: (order: Order) => void
  signal?: AbortSignal
}

/** A till's way through the payment API: docs/how-to/charge-from-an-erp.md. */
export class TillbridgeClient {
  readonly #connection: Connection
  readonly #tries: number
  readonly #onRetry: (error: TillbridgeError | NoAnswerError) => void

  constructor({ tries = 10, onRetry = () => undefined, ...options }: ClientOptions) {
    const { language = 'es', timeoutMs = 40_000, fetch = globalThis.fetch } = options
    const url = options.url.replace(/\/+$/, '')
    this.#connection = { url, key: options.key, language, timeoutMs, fetch }
    this.#tries = tries
    this.#onRetry = onRetry
  }

  /** Charges. The same `idempotencyKey` with the same content never charges twice, also after a restart of the till. */
  charge({ idempotencyKey, ...body }: Charge): Promise<Answer<'post', '/orders'>> {
    return this.#repeat('post', '/orders', { body, idempotencyKey })
  }

  /** Reads the order until it is charged, not charged, waits for a person (`needs_decision`), or a person has decided (`settled`). */
  async waitForEnd(orderId: string, { onChange, signal }: WaitOptions = {}): Promise<Order> {
    const options = { path: { orderId }, signal }
    let order = await this.#repeat('get', '/orders/{orderId}', options)
    onChange?.(order)
    while (isUndecided(order)) {
      await pause(200, signal)
      const query = { wait: 30, version: order.version }
      order = await this.#repeat('get', '/orders/{orderId}', { ...options, query })
      onChange?.(order)
    }
    return order
  }

  /** Asks for a cancel. The answer may be 202: the customer can still pay, so wait for the end. */
  cancel(orderId: string): Promise<Answer<'post', '/orders/cancel'>> {
    return this.#repeat('post', '/orders/cancel', { body: { order_id: orderId } })
  }

  /** Refunds all of an order, or `amount` of it. `outcome: unknown`: wait for the end. */
  refund({ idempotencyKey, ...body }: Refund): Promise<Answer<'post', '/orders/refund'>> {
    return this.#repeat('post', '/orders/refund', { body, idempotencyKey })
  }

  /** Closes a day or a shift, and waits until it is compared with Mercado Pago. */
  async closeDay(
    body: Schemas['NewClosing'],
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<Answer<'get', '/closings/{closingId}'>> {
    const { id } = await this.#repeat('post', '/closings', { body, signal })
    for (;;) {
      const options = { path: { closingId: id }, signal }
      const closing = await this.#repeat('get', '/closings/{closingId}', options)
      if (closing.state !== 'open' && closing.state !== 'checking') return closing
      await pause(2_000, signal)
    }
  }

  /**
   * Follows the feed of events without end, page by page; none is empty. With `consumer`, the service keeps the place: a page is
   * committed when the next one is asked for, so a page whose work failed comes again. Without, keep `next` yourself for `after`.
   */
  async *followEvents(
    query: NonNullable<RequestOptions<'get', '/events/feed'>['query']>,
    { signal }: { signal?: AbortSignal } = {},
  ): AsyncGenerator<EventPage, never> {
    const { consumer, reader } = query
    let after = query.after
    for (;;) {
      const place = after === undefined ? {} : { after }
      const asked = { ...query, ...(consumer === undefined ? place : {}), wait: 30 }
      const page = await this.#repeat('get', '/events/feed', { query: asked, signal })
      if (page.events.length > 0) yield page
      if (consumer === undefined) after = page.next
      else {
        const body = { after: page.next }
        const ofReader = reader === undefined ? {} : { query: { reader } }
        const options = { path: { name: consumer }, body, signal, ...ofReader }
        await this.#repeat('post', '/events/feed/consumers/{name}', options)
      }
      if (page.events.length === 0) await pause(200, signal)
    }
  }

  /** Any other route. Only reads, and requests with an `idempotencyKey`, are sent again when no answer comes. */
  send<M extends Method, P extends PathOf<M>>(
    method: M,
    path: P,
    options: RequestOptions<M, P> = {},
  ): Promise<Answer<M, P>> {
    const isSafe = method === 'get' || options.idempotencyKey !== undefined
    if (isSafe) return this.#repeat(method, path, options)
    return request(this.#connection, method, path, options)
  }

  /** The loop of a till: the same request with the same key, as long as that is what to do. */
  async #repeat<M extends Method, P extends PathOf<M>>(
    method: M,
    path: P,
    options: RequestOptions<M, P>,
  ): Promise<Answer<M, P>> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await request(this.#connection, method, path, options)
      } catch (error) {
        const isOurs = error instanceof TillbridgeError || error instanceof NoAnswerError
        if (!isOurs || error.retry !== 'same_request' || tries >= this.#tries) throw error
        this.#onRetry(error)
        await pause(error.retryAfterMs, options.signal)
      }
    }
  }
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, ms)
    if (signal?.aborted) stop()
    else signal?.addEventListener('abort', stop, { once: true })
  })
}

/** A person's decision leaves `outcome` as Mercado Pago has proven it. */
function isUndecided({ outcome, needs_decision, settled }: Order): boolean {
  return outcome === 'unknown' && needs_decision === null && settled === null
}
