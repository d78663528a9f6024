import { type Answer, guardedRequest, RequestFailure } from '../outbound/guarded-request.ts'
import type { Reason } from '../texts/reason.ts'
import type { ChannelDeps, SendResult } from './channel.ts'

type Post = {
  url: string
  headers: Record<string, string>
  body: string
  signal: AbortSignal | undefined
}

/**
 * Posts JSON and classifies the status; redirects are not followed. `explain` may add a word about a refusal. The
 * body itself is never repeated, because it may contain our own secret.
 */
export async function post(
  deps: ChannelDeps,
  { url, headers, body, signal }: Post,
  explain: (answer: Answer) => string = () => '',
): Promise<SendResult> {
  try {
    const answer = await guardedRequest({
      mayCut: true,
      agent: deps.agent,
      method: 'POST',
      url,
      headers: { 'content-type': 'application/json', 'user-agent': 'tillbridge', ...headers },
      body,
      timeoutMs: deps.timeoutMs,
      signal,
      now: () => deps.now().getTime(),
    })
    const { status, retryAfterSeconds } = answer
    if (status >= 200 && status <= 299) return { ok: true }
    const word = explain(answer)
    return {
      ok: false,
      why:
        status >= 300 && status <= 399
          ? { code: 'HTTP_REDIRECT', data: { status } }
          : { code: 'HTTP_STATUS', data: { status, ...(word && { said: `(${word})` }) } },
      ...(isRefusal(status) && { isRefused: true }),
      ...(retryAfterSeconds !== null && { retryAfterSeconds }),
    }
  } catch (error) {
    const why: Reason = error instanceof RequestFailure ? error.why : { code: 'ALERT_NOT_SENT' }
    return { ok: false, why }
  }
}

/** Timeout, Too Early and Too Many Requests concern every message. */
function isRefusal(status: number): boolean {
  return status >= 400 && status <= 499 && ![408, 425, 429].includes(status)
}
