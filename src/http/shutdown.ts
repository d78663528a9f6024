import type { FastifyInstance } from 'fastify'
import { AppError } from '../errors/app-error.ts'
import { moneyOutcome } from '../errors/money-outcome.ts'
import type { Connections } from './connections.ts'

/** How a listener stops; on the app as `shutdown`. */
export type Shutdown = {
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

/** A connection that was opened in advance may still bring a request; after this time it counts as idle. */
const unusedGraceMs = 500

/**
 * At shutdown: ends long-polls and streams, finishes running requests, refuses new ones with 503, and closes each
 * connection after its answer. A kept-alive one would delay the shutdown by 72 s.
 */
export function installShutdown(app: FastifyInstance, connections: Connections): void {
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
    setTimeout(() => connections.destroyUnused(), unusedGraceMs).unref()
  })

  app.addHook('onRequest', async (request) => {
    if (!closing) return
    throw new AppError('SERVICE_UNAVAILABLE', {
      message: 'The service is stopping; try again',
      // This request had no effect, whatever the route; an equal one before it may still run.
      extra: {
        retryAfterSeconds: 1,
        ...(request.routeOptions.config.money && moneyOutcome('notBegun')),
      },
    })
  })

  app.addHook('onSend', async (_request, reply) => {
    if (closing) reply.header('connection', 'close')
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
