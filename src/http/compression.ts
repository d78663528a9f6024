import { constants } from 'node:zlib'
import compress from '@fastify/compress'
import type { FastifyInstance } from 'fastify'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * On routes that answer lists and figures: sent compressed to who takes it. Only by this word, so an answer that holds a key,
     * a token or a state never is: how long a compressed answer is tells what it has in common with words that a stranger put
     * into it (BREACH). Nor are those of routes that move money: they are small, and hurry.
     */
    compressed?: boolean
  }
}

/** Below, an answer fits one packet anyway. */
const thresholdBytes = 1024
/**
 * Up to here at once, on the main thread, with its length told: 64 KB take 0.3 ms, less than handing it over. Larger ones are
 * compressed by other threads, piece by piece.
 */
const atOnceBytes = 64 * 1024

const how = {
  encodings: ['br' as const, 'gzip' as const],
  threshold: thresholdBytes,
  syncThreshold: atOnceBytes,
  // Orders weigh a tenth then; a higher quality takes twice the time for the last few percent.
  brotliOptions: { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } },
  zlibOptions: { level: 4 },
}

/**
 * Compresses the answers of routes with `config.compressed`. Call it, awaited, before the routes are added. Pages and
 * streams of events are not among them: those come compressed once (pages.ts), these must not be held back.
 */
export async function installCompression(app: FastifyInstance): Promise<void> {
  app.addHook('onRoute', (route) => {
    if (!route.config?.compressed) return
    if (route.method !== 'GET') throw new Error(`${route.url} writes, so its answer stays as it is`)
    // Here, because what a route says counts alone: options of the registration would be lost.
    route.compress = how
  })
  // A small body that unpacks to a large one would get around the limit of bodies: none is unpacked.
  await app.register(compress, { globalCompression: false, globalDecompression: false })
}
