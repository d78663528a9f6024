import { Readable } from 'node:stream'
import { constants } from 'node:zlib'
import compress from '@fastify/compress'
import type { FastifyRequest, onSendHookHandler, preHandlerAsyncHookHandler } from 'fastify'
import { fastifyPlugin } from 'fastify-plugin'
import { createReadTurns, type ReadLimits } from './read-turns.ts'

/** A smaller answer fits one packet anyway. */
const thresholdBytes = 1024
/**
 * Up to this size at once on the main thread, with a content length: 64 KB take 0.3 ms, less than passing them to a
 * thread. Larger ones are compressed by other threads, in chunks.
 */
const atOnceBytes = 64 * 1024

const howToCompress = {
  encodings: ['br' as const, 'gzip' as const],
  threshold: thresholdBytes,
  syncThreshold: atOnceBytes,
  // Orders shrink to a tenth; a higher quality takes twice the time for the last few percent.
  brotliOptions: { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } },
  zlibOptions: { level: 4 },
}

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Options of a route that reads a list, figures or a file: compressed for clients that accept it, and read in turns of those who
     * ask. A route must say it, so an answer with a key, a token or a state is never compressed: its size shows what it has in common
     * with text that an attacker put in (BREACH). Answers of routes that move money are small and urgent, and not compressed either.
     */
    forList: {
      compress: NonNullable<RouteOptions['compress']>
      preHandler: preHandlerAsyncHookHandler
      onSend: onSendHookHandler
    }
    /** The same for what every caller gets alike, and which is made once. */
    forDocument: Pick<FastifyInstance['forList'], 'compress'>
  }
}

type ListOptions = {
  /** Those who take turns with each other. */
  ownerOf: (request: FastifyRequest) => string
  limits?: ReadLimits
  /** A client that reads nothing of its answer for so long is cut, since its turn delays all others. */
  stalledMs?: number
}

/** Pages are compressed once elsewhere (cached-text.ts), and event streams must not be delayed. */
export const lists = fastifyPlugin<ListOptions>(
  async (app, { ownerOf, limits, stalledMs = 30_000 }) => {
    // A small body that decompresses to a large one would bypass the body limit: none is decompressed.
    await app.register(compress, { globalCompression: false, globalDecompression: false })
    const turns = createReadTurns(limits)
    const ends = new WeakMap<FastifyRequest, () => void>()
    app.decorate('forDocument', { compress: howToCompress })
    app.decorate('forList', {
      compress: howToCompress,
      async preHandler(request, reply) {
        ends.set(request, await turns.take(ownerOf(request), reply.raw))
      },
      onSend(request, reply, payload, done) {
        // An injected request has no connection. The next request of a connection has no such limit.
        request.socket.setTimeout?.(stalledMs)
        const end = ends.get(request)
        // A turn lasts to the end of a file, and not longer than the reading of anything else.
        if (end && payload instanceof Readable && !reply.raw.closed) reply.raw.once('close', end)
        else end?.()
        done(null, payload)
      },
    })
  },
  { name: 'lists' },
)
