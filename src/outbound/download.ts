import { Agent, request } from 'undici'
import { OutboundError } from './outbound-error.ts'
import { kindOf } from './send-attempt.ts'

/**
 * One GET whose response is read in chunks, so that memory use does not grow with it. An error during the transfer is thrown
 * to the reader.
 *
 * @throws OutboundError unless the response is a 2xx.
 */
export async function* download(input: {
  url: string
  headers: Record<string, string>
  /** The longest time without data. */
  timeoutMs: number
  signal?: AbortSignal | undefined
}): AsyncGenerator<string> {
  const { url, headers, timeoutMs, signal } = input
  const agent = new Agent({
    connect: { timeout: timeoutMs },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
  })
  try {
    const answer = await request(url, {
      dispatcher: agent,
      headers,
      ...(signal && { signal }),
    }).catch((cause: unknown) => {
      throw failureOf(null, {}, cause)
    })
    if (answer.statusCode < 200 || answer.statusCode > 299) {
      await answer.body.dump()
      throw failureOf(answer.statusCode, answer.headers)
    }
    answer.body.setEncoding('utf8')
    for await (const part of answer.body) yield String(part)
  } finally {
    await agent.destroy()
  }
}

function failureOf(
  status: number | null,
  headers: Record<string, string | string[] | undefined>,
  cause?: unknown,
): OutboundError {
  const failure = status === null ? ('connect' as const) : null
  const read = { success: false as const, status, failure, body: null }
  return new OutboundError(
    {
      kind: kindOf(read, 'none'),
      effect: 'none',
      provesAbsence: false,
      status,
      failure,
      body: null,
      headers,
      retryAfterSeconds: null,
      attempts: 1,
    },
    cause,
  )
}
