import type { Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest, preHandlerHookHandler } from 'fastify'
import ipaddr from 'ipaddr.js'
import { AppError } from '../errors/app-error.ts'
import { moneyOutcome } from '../errors/money-outcome.ts'

/** Which requests run on which socket, and which sockets have never carried one. */
export type OpenConnections = {
  /** Counts a request that has just arrived. */
  begin(request: FastifyRequest, reply: FastifyReply): void
  requestsOn(socket: Socket): ReadonlySet<FastifyRequest>
  /** Closes those that have never carried a request, if none comes within a short time. */
  closeUnused(): void
}

/** Called once for each request: after its answer, or when the client disconnected before an answer began (`isGone`). */
type EndObserver = (request: FastifyRequest, reply: FastifyReply, isGone: boolean) => void

declare module 'fastify' {
  interface FastifyInstance {
    /** Calls `observe`, which must not throw, at the end of each request of this listener. */
    onRequestEnd(observe: EndObserver): void
  }
}

/** A connection that was opened in advance may still bring a request; after this time it counts as idle. */
const unusedGraceMs = 500
const none: ReadonlySet<FastifyRequest> = new Set()

/**
 * Keeps the number of open connections within `limit`: the longest idle one is closed for a new one. A connection with a running
 * request is never closed for a new one; when there are only such, the new one is closed.
 */
export function trackConnections(app: FastifyInstance, limit: number): OpenConnections {
  const running = new WeakMap<Socket, Set<FastifyRequest>>()
  const unused = new Set<Socket>()
  const sockets = new Set<Socket>()
  /** Those without a running request, the longest idle first. */
  const idle = new Set<Socket>()

  // A last limit, for connections that arrive faster than others are closed.
  app.server.maxConnections = Math.ceil(limit * 1.1)
  app.server.on('connection', (socket: Socket) => {
    if (sockets.size >= limit) {
      const [longestIdle = socket] = idle
      idle.delete(longestIdle)
      longestIdle.destroy()
    }
    unused.add(socket)
    sockets.add(socket)
    idle.add(socket)
    socket.once('close', () => {
      unused.delete(socket)
      sockets.delete(socket)
      idle.delete(socket)
    })
  })

  const observers: EndObserver[] = []
  app.decorate('onRequestEnd', (observe) => void observers.push(observe))

  return {
    begin(request, reply) {
      const { socket } = request.raw
      unused.delete(socket)
      const requests = running.get(socket) ?? new Set()
      running.set(socket, requests)
      requests.add(request)
      idle.delete(socket)
      // Fastify's onResponse does not run for a disconnected client, nor for a stream.
      reply.raw.once('close', () => {
        requests.delete(request)
        // An injected request has a socket that was never opened.
        if (requests.size === 0 && sockets.has(socket)) idle.add(socket)
        for (const observe of observers) observe(request, reply, !reply.raw.headersSent)
      })
    },
    requestsOn: (socket) => running.get(socket) ?? none,
    closeUnused() {
      setTimeout(() => {
        for (const socket of unused) socket.destroy()
      }, unusedGraceMs).unref()
    },
  }
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Runs also after the client disconnected: it undoes no later request, and some clients do not wait for the
     * answer.
     */
    mayComeLate?: true
  }
}

const safeMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/**
 * Whether the client of a request has disconnected, as far as this machine knows. Data that arrived while the process
 * was suspended is read first.
 */
export async function hasDisconnected({ socket }: FastifyRequest): Promise<boolean> {
  // The first turn ends the present one; in the next turn a pending end of the socket is read.
  await turn()
  await turn()
  return socket.readableEnded || socket.destroyed
}

/**
 * Changes nothing for a client that disconnected before its request began. A suspended process would run old requests
 * after it wakes, although the client may have sent newer ones elsewhere. It could resume a paused flow or cancel a
 * continued order. Requests that move money are checked again (`requireConnected`).
 */
export const refuseDisconnected: preHandlerHookHandler = (request, _reply, done) => {
  const { method, routeOptions } = request
  if (safeMethods.has(method) || routeOptions.config.mayComeLate) return done()
  hasDisconnected(request).then((isGone) => {
    if (!isGone) return done()
    request.log.warn({ req: request }, 'request not executed: the client disconnected')
    done(new AppError('CALLER_GONE'))
  }, done)
}

/** Forms in which proxies write an address: with a port, in brackets, in quotes (RFC 7239, 6). */
const spelt = /^"?(?:\[([^\]]+)\](?::\d{1,5})?|(\d{1,3}(?:\.\d{1,3}){3})(?::\d{1,5})?)"?$/

/**
 * The address of the client: as a trusted proxy names it, without port, brackets and quotes. What is no address was
 * made up or is the proxy's placeholder; then the connection's own address counts.
 */
export function callerAddress(request: {
  ip: string
  socket: { remoteAddress?: string | undefined }
}): string {
  const { ip, socket } = request
  if (ipaddr.isValid(ip)) return ip
  const [, v6, v4] = spelt.exec(ip) ?? []
  const address = v6 ?? v4
  if (address !== undefined && ipaddr.isValid(address)) return address
  return socket.remoteAddress ?? ip
}

/**
 * What counts as one caller: an IPv4 address in any spelling, and the /64 of an IPv6 address, because one subscriber
 * has all of it.
 */
export function addressGroup(address: string): string {
  if (!ipaddr.isValid(address)) return address
  const parsed = ipaddr.process(address)
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString()
  const network = parsed.parts.slice(0, 4).map((part) => part.toString(16))
  return `${network.join(':')}::/64`
}

/** How a listener stops; on the app as `shutdown`. */
type Shutdown = {
  /** True from the beginning of the shutdown. */
  readonly closing: boolean
  /**
   * Adds what must end before the listener stops: it wakes a long-poll or ends an event stream. It runs once, at the
   * shutdown, or at once when that has begun. Call the returned function when the request is over.
   */
  onClosing(closer: () => void): () => void
}

declare module 'fastify' {
  interface FastifyInstance {
    shutdown: Shutdown
  }
}

/**
 * At shutdown: ends long-polls and streams, finishes running requests, refuses new ones with 503 (`whileStopping`), and closes each
 * connection after its answer. A kept-alive one would delay the shutdown by 72 s.
 */
export function installShutdown(app: FastifyInstance, { onStop }: { onStop(): void }): void {
  const closers = new Set<() => void>()
  let closing = false

  app.decorate('shutdown', {
    get closing() {
      return closing
    },
    onClosing(closer: () => void) {
      if (closing) closer()
      else closers.add(closer)
      return () => closers.delete(closer)
    },
  })

  app.addHook('preClose', async () => {
    closing = true
    for (const closer of closers) closer()
    closers.clear()
    onStop()
  })
}

/** The refusal of a request that arrives during the shutdown. */
export function whileStopping({ routeOptions }: FastifyRequest): AppError {
  return new AppError('SERVICE_UNAVAILABLE', {
    message: 'The service is stopping; try again',
    // This request had no effect, whatever the route; an equal one before it may still run.
    extra: { retryAfterSeconds: 1, ...(routeOptions.config.money && moneyOutcome('notBegun')) },
  })
}

/**
 * Stops the listener. Requests that still run at the deadline are cut.
 * @returns whether the deadline cut any.
 */
export async function closeServer(
  app: FastifyInstance,
  { deadlineMs }: { deadlineMs: number },
): Promise<{ forced: boolean }> {
  let forced = false
  const timer = setTimeout(() => {
    forced = true
    app.server.closeAllConnections()
  }, deadlineMs)
  try {
    await app.close()
  } finally {
    clearTimeout(timer)
  }
  return { forced }
}
