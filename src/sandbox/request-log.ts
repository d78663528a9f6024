import type { IncomingHttpHeaders } from 'node:http'
import { isRecord } from './problems.ts'

export type LoggedRequest = {
  seq: number
  at: string
  method: string
  path: string
  query: string
  headers: Record<string, string>
  body: unknown
  user_id: number | null
  status: number | null
  fault: string | null
}

export type RequestLog = {
  start: (
    entry: Omit<LoggedRequest, 'seq' | 'headers'>,
    headers: IncomingHttpHeaders,
  ) => LoggedRequest
  list: () => LoggedRequest[]
  clear: () => void
}

const kept = 5000
const secretHeaders = new Set(['authorization', 'cookie', 'proxy-authorization'])
const secretFields = new Set(['client_secret', 'code', 'code_verifier', 'refresh_token'])

/** Requests of callers, newest last, bounded: tests read their headers and bodies. Secrets are masked. */
export function createRequestLog(): RequestLog {
  let entries: LoggedRequest[] = []
  let seq = 0
  return {
    start: (entry, headers) => {
      seq += 1
      const logged = { ...entry, seq, headers: maskHeaders(headers) }
      entries.push(logged)
      if (entries.length > kept * 2) entries = entries.slice(-kept)
      return logged
    },
    list: () => entries.slice(-kept),
    clear: () => {
      entries = []
    },
  }
}

function maskHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const shown: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined) continue
    shown[name] = secretHeaders.has(name) ? '***' : String(value)
  }
  return shown
}

/** The body of a call with credentials masked. */
export function maskBody(body: unknown): unknown {
  if (!isRecord(body)) return body ?? null
  return Object.fromEntries(
    Object.entries(body).map(([key, value]) => [key, secretFields.has(key) ? '***' : value]),
  )
}
