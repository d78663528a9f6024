import { constants } from 'node:zlib'
import compress from '@fastify/compress'
import type { FastifyInstance } from 'fastify'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * On routes that return lists and figures: compressed for clients that accept it. It must be set by hand, so an
     * answer with a key, a token or a state is never compressed. The size of a compressed answer shows what it has in
     * common with text that an attacker put in (BREACH). Answers of routes that move money are small and urgent, so
     * they are not compressed either.
     */
    compressed?: boolean
  }
}

/** A smaller answer fits one packet anyway. */
const thresholdBytes = 1024
/**
 * Up to this size at once on the main thread, with a content length: 64 KB take 0.3 ms, less than passing them to a
 * thread. Larger ones are compressed by other threads, in chunks.
 */
const atOnceBytes = 64 * 1024

const how = {
  encodings: ['br' as const, 'gzip' as const],
  threshold: thresholdBytes,
  syncThreshold: atOnceBytes,
  // Orders shrink to a tenth; a higher quality takes twice the time for the last few percent.
  brotliOptions: { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } },
  zlibOptions: { level: 4 },
}

/**
 * Compresses the answers of routes with `config.compressed`. Call it, awaited, before the routes are added. Pages are
 * compressed once elsewhere (cached-text.ts), and event streams must not be delayed.
 */
export async function installCompression(app: FastifyInstance): Promise<void> {
  app.addHook('onRoute', (route) => {
    if (!route.config?.compressed) return
    if (route.method !== 'GET') throw new Error(`${route.url} writes, so its answer stays as it is`)
    // On the route, because its options replace those of the registration.
    route.compress = how
  })
  // A small body that decompresses to a large one would bypass the body limit: none is decompressed.
  await app.register(compress, { globalCompression: false, globalDecompression: false })
}
