import type { FastifyInstance } from 'fastify'
import { AppError } from '../errors/app-error.ts'
import { moneyOutcome } from '../errors/money-outcome.ts'
import type { Connections } from './connections.ts'

/** How a listener stops; decorated on the app as `shutdown`. */
export type Shutdown = {
  /** True from the moment the listener was told to stop. */
  readonly closing: boolean
  /**
   * Adds what must end for the listener to stop: wake a long-poll, end an event stream. It runs once, at the stop, or
   * at once when that has begun. Call the returned function when the request is over.
   */
  onClosing(closer: () => void): () => void
}

declare module 'fastify' {
  interface FastifyInstance {
    shutdown: Shutdown
  }
}

/** A connection that was opened in advance may still bring a request; after this it counts as idle. */
const unusedGraceMs = 500

/**
 * On stop: ends long-polls and streams, finishes running requests, refuses new ones with 503, and closes every
 * connection after its answer (a kept-alive one would hold the stop for 72 s).
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
      // Nothing of it was begun, whatever the route; an equal one before it may still be under way.
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
 * Stops the listener. Requests that still run when the deadline passes are cut.
 * @returns whether the deadline had to cut something.
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
