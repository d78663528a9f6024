import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { versionOf } from './page-bundle.ts'

const compressions = {
  br: (text: string, isBest: boolean) =>
    promisify(brotliCompress)(text, {
      params: { [constants.BROTLI_PARAM_QUALITY]: isBest ? 11 : 5 },
    }),
  gzip: (text: string, isBest: boolean) => promisify(gzip)(text, { level: isBest ? 9 : 6 }),
}
type Encoding = keyof typeof compressions

export type TextSender = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>

/**
 * A handler that answers with one text, which must hold nothing secret: it is read when first asked for, and compressed off
 * the main thread, once per process and encoding: quickly for who asks first, as well as can be, which takes a second, for who
 * asks after that. Browsers keep it for good under `?v=` and its version; else they ask again each time and get 304 while it
 * is the same. `chosenBy` are the request's headers that led to this text and not to another.
 */
export function createSender(
  type: string,
  read: () => string,
  chosenBy: readonly string[] = [],
): TextSender {
  const compressed = new Map<Encoding, Promise<Buffer>>()
  let known: { text: string; version: string } | undefined

  const begin = (encoding: Encoding, text: string): Promise<Buffer> => {
    const quick = compressions[encoding](text, false)
    compressed.set(encoding, quick)
    // What fails leaves the quick one in its place.
    void quick
      .then(() => compressions[encoding](text, true))
      .then((best) => compressed.set(encoding, Promise.resolve(best)))
      .catch(() => undefined)
    return quick
  }

  return async (request: FastifyRequest, reply: FastifyReply) => {
    known ??= withVersion(read())
    const { text, version } = known
    const etag = `"${version}"`
    // Another version is asked for while processes of two releases work side by side: it must not be kept under that name.
    const isNamed = (request.query as Record<string, unknown>).v === version
    reply
      .header('cache-control', isNamed ? 'public, max-age=31536000, immutable' : 'no-cache')
      .header('etag', etag)
      .header('vary', ['accept-encoding', ...chosenBy].join(', '))
    if (request.headers['if-none-match']?.replaceAll('W/', '').includes(etag)) {
      return reply.status(304).send()
    }
    reply.type(type)
    const encoding = encodingFor(request.headers['accept-encoding'])
    if (encoding === undefined) return text
    reply.header('content-encoding', encoding)
    return await (compressed.get(encoding) ?? begin(encoding, text))
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
