import type { Dispatcher } from 'undici'
import { type GuardedRequest, guardedRequest, RequestFailure } from './guarded-request.ts'
import { parseRetryAfter } from './retry-decision.ts'

export type Answer = {
  status: number
  headers: Record<string, string | string[] | undefined>
  /** Empty when the answer was larger than `maxBytes`; the status still counts. */
  body: Buffer
  /** Seconds; null when absent or unreadable. */
  retryAfterSeconds: number | null
  /** It was larger. */
  isCut?: boolean
}

type Seen = Pick<Answer, 'headers'> & { status: number | undefined }

/**
 * A guarded request that needs only the status of the answer. A body beyond the limit is dropped and is no failure,
 * since the request is done or refused by then.
 *
 * @throws RequestFailure when no status came.
 */
export async function exchange(request: Omit<GuardedRequest, 'redirects'>): Promise<Answer> {
  const seen: Seen = { status: undefined, headers: {} }
  const agent = watched(request.agent, seen)
  try {
    return await guardedRequest({ ...request, agent, redirects: 'none' })
  } catch (error) {
    const isJustLarge = error instanceof RequestFailure && error.kind === 'too_large'
    if (!isJustLarge || seen.status === undefined) throw error
    const nowMs = (request.now ?? Date.now)()
    return {
      status: seen.status,
      headers: seen.headers,
      body: Buffer.alloc(0),
      isCut: true,
      retryAfterSeconds: parseRetryAfter(seen.headers['retry-after'], nowMs),
    }
  }
}

function watched(dispatcher: Dispatcher, seen: Seen): Dispatcher {
  return dispatcher.compose((dispatch) => (options, handler) => {
    const watching: Dispatcher.DispatchHandler = {
      onRequestStart: (...args) => handler.onRequestStart?.(...args),
      onRequestUpgrade: (...args) => handler.onRequestUpgrade?.(...args),
      onResponseStart(controller, status, headers, message) {
        seen.status = status
        seen.headers = headers
        handler.onResponseStart?.(controller, status, headers, message)
      },
      onResponseData: (...args) => handler.onResponseData?.(...args),
      onResponseEnd: (...args) => handler.onResponseEnd?.(...args),
      onResponseError: (...args) => handler.onResponseError?.(...args),
    }
    return dispatch(options, watching)
  })
}
