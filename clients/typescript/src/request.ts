import type { paths } from './api.ts'
import { NoAnswerError, TillbridgeError } from './errors.ts'

export type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'
/** The paths that have this method. */
export type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<M, { responses: object }> ? P : never
}[keyof paths]

type Operation<M extends Method, P extends PathOf<M>> = paths[P][M]
type JsonOf<R> = R extends { content: { 'application/json': infer Body } } ? Body : never
/** What a successful answer holds. */
export type Answer<M extends Method, P extends PathOf<M>> =
  Operation<M, P> extends { responses: infer All } ? JsonOf<All[keyof All]> : never
type Given<T, Name extends string> = T extends { parameters: Record<Name, infer Value> }
  ? Value
  : unknown

export type RequestOptions<M extends Method, P extends PathOf<M>> = {
  /** Values for the names in braces. */
  path?: Given<Operation<M, P>, 'path'>
  query?: Operation<M, P> extends { parameters: { query?: infer Query } } ? Query : never
  body?: Operation<M, P> extends { requestBody?: { content: { 'application/json': infer Body } } }
    ? Body
    : never
  idempotencyKey?: string
  signal?: AbortSignal | undefined
}

export type Connection = {
  url: string
  key: string
  language: 'es' | 'en' | 'pt'
  timeoutMs: number
  fetch: typeof globalThis.fetch
}

/** One request. Throws TillbridgeError for an error, NoAnswerError when no answer came. */
export async function request<M extends Method, P extends PathOf<M>>(
  connection: Connection,
  method: M,
  path: P,
  options: RequestOptions<M, P> = {},
): Promise<Answer<M, P>> {
  const { status, headers, text } = await exchange(connection, method, path, options)
  const body = parse(text)
  if (status < 400) return body as Answer<M, P>
  if (typeof body.code !== 'string') throw new NoAnswerError(`no answer of the service: ${status}`)
  const seconds = Number(headers.get('retry-after')) || 1
  throw new TillbridgeError(status, body as unknown as TillbridgeError['body'], seconds * 1_000)
}

async function exchange<M extends Method, P extends PathOf<M>>(
  { url, key, language, timeoutMs, fetch }: Connection,
  method: M,
  path: P,
  { path: names, query, body, idempotencyKey, signal }: RequestOptions<M, P>,
): Promise<{ status: number; headers: Headers; text: string }> {
  const given = { ...(names as Record<string, string> | undefined) }
  const asked = { ...(query as Record<string, unknown> | undefined) }
  const words = new URLSearchParams()
  for (const [name, value] of Object.entries(asked)) words.set(name, String(value))
  const address = String(path).replaceAll(/\{(\w+)\}/g, (_, name) =>
    encodeURIComponent(given[name] ?? ''),
  )
  const target = words.size === 0 ? `${url}${address}` : `${url}${address}?${words}`
  const timeout = AbortSignal.timeout(timeoutMs)
  try {
    const answer = await fetch(target, {
      method: method.toUpperCase(),
      headers: {
        'x-api-token': key,
        'accept-language': language,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      redirect: 'error',
      signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
    })
    return { status: answer.status, headers: answer.headers, text: await answer.text() }
  } catch (cause) {
    // Whoever stopped the wait gets its own reason.
    signal?.throwIfAborted()
    throw new NoAnswerError('no answer', { cause })
  }
}

function parse(text: string): Record<string, unknown> {
  try {
    return text === '' ? {} : JSON.parse(text)
  } catch (cause) {
    throw new NoAnswerError('an answer that is no JSON', { cause })
  }
}
