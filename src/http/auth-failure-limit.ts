import rateLimit, { type RateLimitOptions } from '@fastify/rate-limit'
import { fastifyPlugin } from 'fastify-plugin'
import { AppError } from '../errors/app-error.ts'
import { addressGroup, callerAddress } from './connections.ts'

/** How many addresses are stored, some 200 bytes each. Beyond that the one whose last try is longest ago is forgotten. */
const capacity = 100_000

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Counts a failed or anonymous try of the request's address.
     *
     * @throws RATE_LIMITED, with the seconds until the address may try again.
     */
    countTry(request: FastifyRequest): Promise<void>
  }
}

/** Limits failed tries by address, over all routes of a listener. Only what is counted here uses up the limit. */
export const authFailureLimit = fastifyPlugin<{ perMinute: number }>(
  async (app, { perMinute }) => {
    await app.register(rateLimit, { global: false })
    const options: RateLimitOptions = {
      max: perMinute,
      timeWindow: 60_000,
      cache: capacity,
      keyGenerator: (request) => addressGroup(callerAddress(request)),
    }
    const limit = app.createRateLimit(options)
    app.decorate('countTry', async (request) => {
      const found = await limit(request)
      if (found.isAllowed || !found.isExceeded) return
      throw new AppError('RATE_LIMITED', { extra: { retryAfterSeconds: found.ttlInSeconds } })
    })
  },
  { name: 'auth-failure-limit' },
)
