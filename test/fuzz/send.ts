import { Client, errors } from 'undici'
import type { FuzzRequest } from './requests.ts'
import type { World } from './world.ts'

export type Answer = {
  method: string
  status: number
  headers: Record<string, string>
  body: string
}

/** Long-polls are hung up on: what they would answer in half a minute they also answer without waiting. */
const waitForWaitingMs = 250
const answerWithinMs = 20_000

export type Sender = {
  /** The answer; undefined when the caller was to hang up and did. Throws when none came. */
  send(request: FuzzRequest): Promise<Answer | undefined>
  close(): Promise<void>
}

/** Sends over a real socket, one request after the other. */
export function createSender(world: World, url: string): Sender {
  const client = new Client(url, { headersTimeout: answerWithinMs, bodyTimeout: answerWithinMs })

  return {
    async send({ caller, method, target, headers, body }) {
      const path = world.fill(target, encodeURIComponent)
      const isWaiting = /[?&]wait=/.test(path)
      const text = body && world.fill(body.text, (value) => JSON.stringify(value).slice(1, -1))
      try {
        const answer = await client.request({
          method: method as 'GET',
          path,
          headers: {
            ...filled(world, headers),
            ...world.callerHeaders(caller),
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

function filled(world: World, headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, world.fill(value)]),
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
