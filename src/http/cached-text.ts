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

/** The best compression of each text, by encoding and version: the listeners of a process send some of the same texts. */
const best = new Map<string, Promise<Buffer>>()

function bestOf(encoding: Encoding, { text, version }: VersionedText): Promise<Buffer> {
  const key = `${encoding} ${version}`
  const made = best.get(key) ?? compressions[encoding](text, true)
  best.set(key, made)
  return made
}

export type TextSender = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>

/**
 * A handler that answers with one text, which must contain no secret. The text is read at the first request and
 * compressed off the main thread. The first request gets a quick compression; later ones
 * get the best, which takes a second. Browsers cache the text for ever under `?v=` and its version. Without it they ask
 * each time and get 304 while it is unchanged. `chosenBy` are the request headers that selected this text.
 */
export function createTextSender(
  type: string,
  read: () => string,
  chosenBy: readonly string[] = [],
): TextSender {
  const compressed = new Map<Encoding, Promise<Buffer>>()
  let known: VersionedText | undefined

  const begin = (encoding: Encoding, versioned: VersionedText): Promise<Buffer> => {
    const quick = compressions[encoding](versioned.text, false)
    compressed.set(encoding, quick)
    // If it fails, the quick one stays.
    void quick
      .then(() => bestOf(encoding, versioned))
      .then((made) => compressed.set(encoding, Promise.resolve(made)))
      .catch(() => undefined)
    return quick
  }

  return async (request: FastifyRequest, reply: FastifyReply) => {
    known ??= withVersion(read())
    const { text, version } = known
    const etag = `"${version}"`
    // While processes of two releases run side by side, a request may name another version: this text must not be
    // cached under it.
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
    return await (compressed.get(encoding) ?? begin(encoding, known))
  }
}

/** The best supported encoding that the browser accepts; undefined for none. */
function encodingFor(accepted: string | string[] | undefined): Encoding | undefined {
  const taken = String(accepted ?? '')
    .split(',')
    .map((one) => one.trim().toLowerCase())
    .filter((one) => !/;\s*q=0(\.0*)?$/.test(one))
    .map((one) => one.split(';')[0]?.trim())
  return (['br', 'gzip'] as const).find((encoding) => taken.includes(encoding))
}

type VersionedText = { text: string; version: string }

function withVersion(text: string): VersionedText {
  return { text, version: versionOf(text) }
}
