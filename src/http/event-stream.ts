import { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '../errors/app-error.ts'
import { limitOpenRequests, type OpenRequestLimits } from './open-request-limit.ts'

/** `data` is sent as one line of JSON. */
export type StreamEvent = { event: string; data: unknown }

/** Why a stream ends, in its last event. The client reconnects after all but `access`. */
type StreamEnd = 'time' | 'access' | 'stopping' | 'unavailable'

export type StreamSource = {
  /** Streams of one owner are counted together. */
  owner: string
  /** The minimum time between two batches of events, in milliseconds; what happens meanwhile is in the next batch. */
  paceMs: number
  /** How long the client wants the stream, if less than the longest. */
  maxSeconds?: number | undefined
  /** Begins to watch, before the first `read`. `wake` means that `read` may return something new. Returns a function that ends it. */
  watch(wake: () => void): () => void
  /** The events since the last call. Called only after the client has taken the last ones, so a slow client misses steps, not ends. */
  read(): Promise<readonly StreamEvent[]>
  /**
   * Called before each `read`.
   *
   * @throws UNAUTHORIZED when the client's access has ended.
   */
  checkAccess(): Promise<void>
}

export type StreamLimits = {
  /** A comment after this much silence keeps proxies from closing the connection, and detects disconnected clients. */
  heartbeatMs: number
  /** Sources are read this often without a wake-up: one may get lost, or a key may be revoked. */
  pollMs: number
  /** The stream ends then, and the client reconnects. */
  longestMs: number
} & OpenRequestLimits

/**
 * The heartbeat is a third of the time that proxies allow a silent connection. The number of streams is half of the
 * listener's connections.
 */
const defaults: StreamLimits = {
  heartbeatMs: 15_000,
  pollMs: 5_000,
  longestMs: 15 * 60_000,
  perOwner: 500,
  total: 5_000,
}

/** When a client reconnects after its stream was lost. */
const comeAgainMs = 2_000
/** A client that does not read gets this long for the end before its connection is cut. */
const cutAfterMs = 500

type EventStreams = {
  /**
   * Answers with a stream.
   *
   * @throws RATE_LIMITED or SERVICE_UNAVAILABLE when there are too many.
   */
  open(request: FastifyRequest, reply: FastifyReply, source: StreamSource): FastifyReply
  /** The number of open streams. */
  count(): number
}

/**
 * Server-sent events (WHATWG HTML 9.2) for the routes of one listener. @fastify/sse 0.6 is not used, because it writes
 * what it is given: each slow client costs a queue. Its wait for a drain never ends when the client disconnects
 * meanwhile. It leaves limits, the end at shutdown and repeated access checks to the caller.
 *
 * Here the connection pulls: only after the last event is on its way the source is read for what is new.
 */
export function createEventStreams(
  app: FastifyInstance,
  given: Partial<StreamLimits> = {},
): EventStreams {
  const limits = { ...defaults, ...given }
  const openRequests = limitOpenRequests(limits)

  const admit = (owner: string) => {
    const place = openRequests.take(owner)
    if (place === 'perOwner') {
      throw new AppError('RATE_LIMITED', {
        message: `Too many streams are open: ${limits.perOwner} at most`,
        extra: { retryAfterSeconds: comeAgainMs / 1000 },
      })
    }
    if (place === 'total') {
      throw new AppError('SERVICE_UNAVAILABLE', {
        message: 'Too many streams are open; read the data instead, or try again',
        extra: { retryAfterSeconds: comeAgainMs / 1000 },
      })
    }
    return place
  }

  return {
    count: openRequests.count,
    open(request, reply, source) {
      // A client that disconnected during the checks causes no further `close`.
      if (reply.raw.closed) return reply.hijack()
      const release = admit(source.owner)
      const bell = createBell()
      const wantedMs = (source.maxSeconds ?? Number.POSITIVE_INFINITY) * 1000
      const longestMs = Math.min(limits.longestMs, wantedMs)
      const forgetSource = source.watch(bell.ring)
      let isStopping = false
      const cut = () => reply.raw.destroy()
      let cutting = setTimeout(cut, longestMs + cutAfterMs)
      const forgetStop = app.shutdown.onClosing(() => {
        isStopping = true
        bell.end()
        clearTimeout(cutting)
        cutting = setTimeout(cut, cutAfterMs)
      })
      reply.raw.once('close', () => {
        clearTimeout(cutting)
        bell.end()
        forgetStop()
        forgetSource()
        release()
        // The headers were sent before the shutdown, so the client expects the connection to be kept.
        if (isStopping) request.raw.socket.end()
      })
      const stream = Readable.from(
        sendEvents(request, source, bell, { ...limits, longestMs }, () => isStopping),
      )
      return reply
        .header('content-type', 'text/event-stream; charset=utf-8')
        .header('x-accel-buffering', 'no')
        .send(stream)
    },
  }
}

async function* sendEvents(
  request: FastifyRequest,
  source: StreamSource,
  bell: Bell,
  limits: StreamLimits,
  isStopping: () => boolean,
): AsyncGenerator<string> {
  // The first bytes are sent at once: the client sees that it is connected before the first event.
  yield `retry: ${comeAgainMs}\n\n`
  const until = performance.now() + limits.longestMs
  let sentAt = performance.now()
  const end = (reason: StreamEnd) => format({ event: 'end', data: { reason } })
  try {
    while (!bell.isOver()) {
      await source.checkAccess()
      const events = await source.read()
      for (const event of events) yield format(event)
      const now = performance.now()
      if (now >= until) return yield end('time')
      if (events.length > 0) {
        sentAt = now
        await bell.waitFor(Math.min(source.paceMs, until - now))
      } else if (now - sentAt >= limits.heartbeatMs) {
        sentAt = now
        yield ': still here\n\n'
      }
      await bell.waitForEvent(
        Math.min(limits.pollMs, limits.heartbeatMs, until - performance.now()),
      )
    }
    if (isStopping()) yield end('stopping')
  } catch (error) {
    if (error instanceof AppError && error.code === 'UNAUTHORIZED') return yield end('access')
    request.log.warn({ err: error }, 'event stream failed')
    yield end('unavailable')
  }
}

function format({ event, data }: StreamEvent): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}

type Bell = {
  ring(): void
  end(): void
  isOver(): boolean
  /** Resolves when it rang since the last time, when it is over, or after `ms`. */
  waitForEvent(ms: number): Promise<void>
  /** Resolves after `ms`, or when it is over. */
  waitFor(ms: number): Promise<void>
}

function createBell(): Bell {
  const over = new AbortController()
  let rung = new AbortController()
  const waitUntil = (ms: number, signal: AbortSignal): Promise<void> =>
    wait(Math.max(0, ms), undefined, { signal }).catch(() => undefined)
  return {
    ring: () => rung.abort(),
    end: () => over.abort(),
    isOver: () => over.signal.aborted,
    async waitForEvent(ms) {
      await waitUntil(ms, AbortSignal.any([rung.signal, over.signal]))
      rung = new AbortController()
    },
    waitFor: (ms) => waitUntil(ms, over.signal),
  }
}
