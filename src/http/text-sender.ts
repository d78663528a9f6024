import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { versionOf } from './page-bundle.ts'

const compressions = {
  br: (text: string) =>
    promisify(brotliCompress)(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }),
  gzip: (text: string) => promisify(gzip)(text, { level: 9 }),
}
type Encoding = keyof typeof compressions

/**
 * A handler that answers with one text, which must hold nothing secret: it is read when first asked for, and compressed once
 * per process and encoding, off the main thread. Browsers keep it for good under `?v=` and its version; else they ask
 * again each time and get 304 while it is the same.
 */
export function createSender(type: string, read: () => string) {
  const compressed = new Map<Encoding, Promise<Buffer>>()
  let known: { text: string; version: string } | undefined

  return async (request: FastifyRequest, reply: FastifyReply) => {
    known ??= withVersion(read())
    const { text, version } = known
    const etag = `"${version}"`
    // Another version is asked for while processes of two releases work side by side: it must not be kept under that name.
    const isNamed = (request.query as Record<string, unknown>).v === version
    reply
      .header('cache-control', isNamed ? 'public, max-age=31536000, immutable' : 'no-cache')
      .header('etag', etag)
      .header('vary', 'accept-encoding')
    if (request.headers['if-none-match']?.replaceAll('W/', '').includes(etag)) {
      return reply.status(304).send()
    }
    reply.type(type)
    const encoding = encodingFor(request.headers['accept-encoding'])
    if (encoding === undefined) return text
    const body = compressed.get(encoding) ?? compressions[encoding](text)
    compressed.set(encoding, body)
    reply.header('content-encoding', encoding)
    return await body
  }
}

/** The best of ours that the browser takes; undefined for none. */
function encodingFor(accepted: string | string[] | undefined): Encoding | undefined {
  const taken = String(accepted ?? '')
    .split(',')
    .map((one) => one.trim().toLowerCase())
    .filter((one) => !/;\s*q=0(\.0*)?$/.test(one))
    .map((one) => one.split(';')[0]?.trim())
  return (['br', 'gzip'] as const).find((encoding) => taken.includes(encoding))
}

function withVersion(text: string) {
  return { text, version: versionOf(text) }
}
