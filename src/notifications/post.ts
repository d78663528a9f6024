import { type Answer, exchange } from '../outbound/exchange.ts'
import { RequestFailure } from '../outbound/guarded-request.ts'
import type { ChannelDeps, SendResult } from './channel.ts'

type Post = {
  url: string
  headers: Record<string, string>
  body: string
  signal: AbortSignal | undefined
}

/**
 * Posts JSON and judges the status; redirects are not followed. `explain` may add a word to what is said about a refusal:
 * the body itself is never repeated, since it may be anything, our own secret included.
 */
export async function post(
  deps: ChannelDeps,
  { url, headers, body, signal }: Post,
  explain: (answer: Answer) => string = () => '',
): Promise<SendResult> {
  try {
    const answer = await exchange({
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
    const why = status >= 300 && status <= 399 ? 'redirects are not followed' : explain(answer)
    return {
      ok: false,
      error: `HTTP ${status}${why && ` (${why})`}`,
      ...(retryAfterSeconds !== null && { retryAfterSeconds }),
    }
  } catch (error) {
    const known = error instanceof RequestFailure ? error.message : 'the request was not made'
    return { ok: false, error: known }
  }
}
