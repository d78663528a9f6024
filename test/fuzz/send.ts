import { Client, errors } from 'undici'
import type { FuzzTestbed } from './fuzz-testbed.ts'
import type { FuzzRequest } from './requests.ts'

export type Answer = {
  method: string
  status: number
  headers: Record<string, string>
  body: string
}

/** The caller disconnects from long-polls: their answers after half a minute equal those without waiting. */
const waitForWaitingMs = 250
const answerWithinMs = 20_000

export type Sender = {
  /** The answer; undefined when the caller disconnected on purpose. Throws when there was none. */
  send(request: FuzzRequest): Promise<Answer | undefined>
  close(): Promise<void>
}

/** Sends over a real socket, one request after the other. */
export function createSender(testbed: FuzzTestbed, url: string): Sender {
  const client = new Client(url, { headersTimeout: answerWithinMs, bodyTimeout: answerWithinMs })

  return {
    async send({ caller, method, target, headers, body }) {
      const path = testbed.fill(target, encodeURIComponent)
      const isWaiting = /[?&]wait=/.test(path)
      const text = body && testbed.fill(body.text, (value) => JSON.stringify(value).slice(1, -1))
      try {
        const answer = await client.request({
          method: method as 'GET',
          path,
          headers: {
            ...filled(testbed, headers),
            ...testbed.callerHeaders(caller),
          },
          ...(text !== undefined && { body: Buffer.from(text + ' '.repeat(body?.padding ?? 0)) }),
          ...(isWaiting && { signal: AbortSignal.timeout(waitForWaitingMs) }),
        })
        return {
          method,
          status: answer.statusCode,
          headers: Object.fromEntries(
            Object.entries(answer.headers).map(([name, value]) => [name, String(value)]),
          ),
          body: await decoded(answer),
        }
      } catch (error) {
        if (isWaiting && error instanceof DOMException && error.name === 'TimeoutError')
          return undefined
        if (isWaiting && error instanceof errors.RequestAbortedError) return undefined
        throw error
      }
    },
    close: () => client.close(),
  }
}

function filled(testbed: FuzzTestbed, headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, testbed.fill(value)]),
  )
}

async function decoded(answer: Awaited<ReturnType<Client['request']>>): Promise<string> {
  const bytes = Buffer.from(await answer.body.arrayBuffer())
  const { brotliDecompressSync, gunzipSync } = await import('node:zlib')
  switch (answer.headers['content-encoding']) {
    case 'br':
      return brotliDecompressSync(bytes).toString()
    case 'gzip':
      return gunzipSync(bytes).toString()
    default:
      return bytes.toString()
  }
}
