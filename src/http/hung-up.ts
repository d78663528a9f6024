import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { AppError } from '../errors/app-error.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Done also for a caller who has hung up: it undoes nothing that was asked later, and some never wait for its answer. */
    mayComeLate?: true
  }
}

/** Methods that change nothing by themselves. */
const safeMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/**
 * Whether the caller of a request that has been read has hung up, as far as this machine has been told: also what came while this
 * process stood still is heard first.
 */
export async function hasHungUp({ socket }: FastifyRequest): Promise<boolean> {
  // The first ends this turn of the event loop; in the next the end is read, if it was there.
  await turn()
  await turn()
  return socket.readableEnded || socket.destroyed
}

/**
 * Nothing is changed for a caller who has hung up before it was begun. What lay with a process that stood still is no longer asked
 * for when that wakes, and what its caller asked of another process meanwhile is done: the flow would be resumed behind its pause,
 * an order canceled that its cashier went on with. Money is moved after another look (`requireConnected`).
 */
export function refuseHungUp(app: FastifyInstance): void {
  app.addHook('preHandler', async (request) => {
    const { method, routeOptions } = request
    if (safeMethods.has(method) || routeOptions.config.mayComeLate) return
    if (!(await hasHungUp(request))) return
    request.log.warn({ req: request }, 'a request is not done: its caller has hung up')
    throw new AppError('CALLER_GONE')
  })
}
