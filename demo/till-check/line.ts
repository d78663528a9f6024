import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What a till sent, and the answer that the service gave. */
export type SentRequest = {
  method: string
  path: string
  headers: Record<string, string>
  body: Record<string, unknown> | undefined
  /** On the clock of `performance.now()`. */
  sentAt: number
  answer?: LineAnswer
}

export type LineAnswer = {
  status: number
  body: Record<string, unknown> | undefined
  /** What `Retry-After` says; 0 without it. */
  retryAfterMs: number
  at: number
  /** False: it was lost on the way to the till. */
  arrived: boolean
}

/** The network between a till and the service: it records requests and answers, and loses them. */
export type RecordedLine = {
  url: string
  sent: SentRequest[]
  /** The answers to so many of the next requests that change something are lost. */
  loseAnswers(count: number): void
  /** Called once the service has answered the next such request; the till never gets this answer. */
  beforeAnswer(then: () => void): void
  /** So many of the next reads do not reach the service, and get no answer. */
  cutReads(count: number): void
  /** Ends what was asked above and has not happened. */
  repair(): void
  close(): Promise<void>
}

type Faults = { answersToLose: number; readsToCut: number; meanwhile: (() => void) | undefined }

/** Opens it in front of the service at `target`. Port 0 takes a free one. */
export async function openRecordedLine(
  target: string,
  { host = '127.0.0.1', port = 0 } = {},
): Promise<RecordedLine> {
  const sent: SentRequest[] = []
  const faults: Faults = { answersToLose: 0, readsToCut: 0, meanwhile: undefined }
  const server = createServer((request, response) => {
    pass(target, request, response, { sent, faults }).catch(() => response.destroy())
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  return {
    url: `http://${host}:${(server.address() as AddressInfo).port}`,
    sent,
    loseAnswers: (count) => {
      faults.answersToLose = count
    },
    beforeAnswer: (then) => {
      faults.meanwhile = then
    },
    cutReads: (count) => {
      faults.readsToCut = count
    },
    repair: () => {
      Object.assign(faults, { answersToLose: 0, readsToCut: 0, meanwhile: undefined })
    },
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function pass(
  target: string,
  request: IncomingMessage,
  response: ServerResponse,
  { sent, faults }: { sent: SentRequest[]; faults: Faults },
): Promise<void> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part)
  const bytes = Buffer.concat(parts)
  const { method = 'GET', url: path = '/' } = request
  const headers = request.headers as Record<string, string>
  const record: SentRequest = {
    ...{ method, path, headers, body: jsonOf(bytes), sentAt: performance.now() },
  }
  sent.push(record)
  if (method === 'GET' && faults.readsToCut > 0) {
    faults.readsToCut -= 1
    response.destroy()
    return
  }
  const answer = await fetch(target + path, {
    method,
    headers: passedOn(headers),
    ...(bytes.length > 0 && { body: bytes }),
  })
  const answered = Buffer.from(await answer.arrayBuffer())
  const isLost = method !== 'GET' && (faults.meanwhile !== undefined || faults.answersToLose > 0)
  record.answer = {
    status: answer.status,
    body: jsonOf(answered),
    retryAfterMs: Number(answer.headers.get('retry-after') ?? 0) * 1000,
    at: performance.now(),
    arrived: !isLost,
  }
  if (isLost) {
    const { meanwhile } = faults
    if (meanwhile === undefined) faults.answersToLose -= 1
    faults.meanwhile = undefined
    meanwhile?.()
    response.destroy()
    return
  }
  response.writeHead(answer.status, passedOn(Object.fromEntries(answer.headers)))
  response.end(answered)
}

/** Undefined for a body that is no JSON object: the service refuses it. */
function jsonOf(bytes: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(bytes.toString())
    return typeof value === 'object' && value !== null ? { ...value } : undefined
  } catch {
    return undefined
  }
}

/** Without those of one connection, and of how its body is packed. */
function passedOn(headers: Record<string, string>): Record<string, string> {
  const own =
    /^(host|connection|keep-alive|content-length|transfer-encoding|content-encoding|accept-encoding|expect)$/
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !own.test(name)))
}
