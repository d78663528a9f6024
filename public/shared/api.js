import { language } from './i18n.js'
import { addressOf } from './place.js'
import { noteServerTime } from './shop-clock.js'

/** An answer of the service that is not a success. `code` is from its closed catalogue; decide by it, never by text. */
export class ApiError extends Error {
  constructor(status, body) {
    super(typeof body?.error === 'string' ? body.error : `HTTP ${status}`)
    this.name = 'ApiError'
    this.status = status
    this.code = typeof body?.code === 'string' ? body.code : `HTTP_${status}`
    this.details = Array.isArray(body?.details) ? body.details : []
    this.outcome = body?.outcome
    this.requestId = body?.request_id
    /** The whole body, for fields that one code has. */
    this.body = body
  }
}

/** No answer: the service cannot be reached, or it took too long. What a write did is then unknown. */
export class ConnectionError extends Error {
  constructor(cause) {
    super('no answer', { cause })
    this.name = 'ConnectionError'
    this.code = 'CONNECTION'
    this.details = []
  }
}

const readTimeoutMs = 20_000
/** A write may take the service up to 25 s and more when the provider is slow. */
const writeTimeoutMs = 60_000

/**
 * Calls against this page's own listener, with a token or, without one, by the session that the browser keeps.
 * `onUnauthorized` hears that neither is valid any more.
 */
export function createApi(token, onUnauthorized) {
  const call = async (method, path, options = {}) => {
    try {
      return await request(method, path, { ...options, token })
    } catch (error) {
      if (error.status === 401) onUnauthorized()
      throw error
    }
  }
  return {
    get: (path, query, signal, timeoutMs) => call('GET', path, { query, signal, timeoutMs }),
    post: (path, options) => call('POST', path, options),
    put: (path, options) => call('PUT', path, options),
    patch: (path, options) => call('PATCH', path, options),
    delete: (path, options) => call('DELETE', path, options),
  }
}

/** One call; rejects with ApiError or ConnectionError. Without `token` none is sent. */
export async function request(
  method,
  path,
  {
    token,
    query,
    body,
    headers,
    signal,
    timeoutMs = method === 'GET' ? readTimeoutMs : writeTimeoutMs,
  },
) {
  const url = addressOf(path)
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== '') url.searchParams.set(name, value)
  }
  const timeout = AbortSignal.timeout(timeoutMs)
  let response
  let text
  try {
    response = await fetch(url, {
      method,
      headers: {
        ...(token !== undefined && { 'x-api-token': token }),
        'accept-language': language(),
        // Also without a body: by this the service knows that no foreign form sent what a session may do.
        ...(method !== 'GET' && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      credentials: 'same-origin',
      redirect: 'error',
      cache: 'no-store',
    })
    noteServerTime(response.headers.get('date'))
    text = await response.text()
  } catch (cause) {
    if (signal?.aborted) throw cause
    throw new ConnectionError(cause)
  }
  const answer = parse(text)
  if (!response.ok) throw new ApiError(response.status, answer)
  if (answer === undefined) throw new ConnectionError(new Error('the answer is not JSON'))
  return answer
}

function parse(text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
