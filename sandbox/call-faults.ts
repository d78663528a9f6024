import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { envelopeOf, errorBody } from './errors.ts'
import { callFaults, type FaultRule, faultsOf } from './faults.ts'
import { hasArrivedLate, holdCall } from './late-calls.ts'
import type { Context } from './sandbox-context.ts'
import { isRecord } from './validation-errors.ts'

/** How long a hanging call lasts when the rule has no time. Callers give up long before. */
const hangMs = 60_000

type Hit = { kind: (typeof callFaults)[number]; rule: FaultRule }

export type LoggedRequest = {
  seq: number
  at: string
  method: string
  path: string
  query: string
  headers: Record<string, unknown>
  body: unknown
  user_id: number | null
  status: number | null
  fault: string | null
}

/** How many requests the log shows. */
export const keptRequests = 5000
const secretHeaders = new Set(['authorization', 'cookie', 'proxy-authorization'])
const secretFields = new Set(['client_secret', 'code', 'code_verifier', 'refresh_token'])

/** Writes the request log and applies the fault rules to calls of the provider's API. */
export function callHooks(app: FastifyInstance, ctx: Context): void {
  const logged = new WeakMap<FastifyRequest, LoggedRequest>()
  const hits = new WeakMap<FastifyRequest, Hit[]>()

  app.addHook('onRequest', async (request) => {
    if (!isProviderCall(request)) return
    logged.set(request, logRequest(ctx, request))
  })

  app.addHook('preHandler', async (request, reply) => {
    const entry = logged.get(request)
    if (entry === undefined) return
    const { body = null } = request
    entry.body = isRecord(body) ? mask(body, secretFields) : body
    if (hasArrivedLate(ctx, request)) {
      entry.fault = 'arrived_late'
      return
    }
    const { method, path, user_id: userId } = entry
    const found = faultsOf(ctx, callFaults, { method, path, userId })
    if (found.length === 0) return
    hits.set(request, found)
    entry.fault = found.map(({ kind }) => kind).join(' ')
    for (const hit of found) {
      await beforeEffect(ctx, request, reply, hit)
      if (reply.sent) return reply
    }
  })

  app.addHook('onSend', async (request, reply, payload) => {
    const entry = logged.get(request)
    if (entry !== undefined) entry.status = reply.statusCode
    let given = payload
    for (const hit of hits.get(request) ?? [])
      given = await afterEffect(ctx, request, reply, given, hit)
    if (entry !== undefined) entry.status = reply.statusCode
    return given
  })
}

/** Adds a request to the log, which is bounded. Tests read headers and bodies; secrets are masked. */
function logRequest({ requests, state, nowMs }: Context, request: FastifyRequest): LoggedRequest {
  const [path = '', query = ''] = request.url.split('?', 2)
  const token = /^Bearer (.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? ''
  requests.count += 1
  const entry: LoggedRequest = {
    seq: requests.count,
    at: new Date(nowMs()).toISOString(),
    method: request.method,
    path,
    query,
    headers: mask(request.headers, secretHeaders),
    body: null,
    user_id: state.tables.accessTokens.get(token)?.userId ?? null,
    status: null,
    fault: null,
  }
  requests.entries.push(entry)
  if (requests.entries.length > keptRequests * 2) {
    requests.entries = requests.entries.slice(-keptRequests)
  }
  return entry
}

function mask(values: Record<string, unknown>, secrets: ReadonlySet<string>) {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, secrets.has(name) ? '***' : value]),
  )
}

/** True for the provider's own paths: not the control surface, not the page. */
function isProviderCall(request: FastifyRequest): boolean {
  const path = request.url.split('?')[0] ?? ''
  return !/^\/($|_sandbox(\/|$)|page\/|terminals$|favicon\.ico$)/.test(path)
}

async function beforeEffect(
  ctx: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  { kind, rule }: Hit,
): Promise<void> {
  switch (kind) {
    case 'latency':
      return sleep(rule.delay_ms ?? 1000, undefined, { ref: false })
    case 'status':
      await reply.send(faultAnswer(request, reply, rule))
      return
    case 'arrive_late':
      holdCall(ctx, request, rule.delay_ms ?? 1000)
      if (rule.answer === 'status') await reply.send(faultAnswer(request, reply, rule))
      else if (rule.answer === 'hang') await hang(ctx, request, null)
      else await cut(request)
      return
    case 'drop_before':
      return cut(request)
    case 'reset':
      request.raw.socket.resetAndDestroy()
      return forever()
    case 'hang_before':
      return hang(ctx, request, rule.delay_ms)
    default:
  }
}

/** Returns what is sent instead of `payload`. */
async function afterEffect(
  ctx: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
  { kind, rule }: Hit,
): Promise<unknown> {
  switch (kind) {
    case 'latency_after':
      await sleep(rule.delay_ms ?? 1000, undefined, { ref: false })
      return payload
    case 'status_after':
      return faultAnswer(request, reply, rule)
    case 'drop_after':
      return cut(request)
    case 'hang_after':
      return hang(ctx, request, rule.delay_ms)
    case 'torn_body': {
      const body = Buffer.from(typeof payload === 'string' ? payload : '')
      reply.raw.writeHead(reply.statusCode, {
        'content-type': 'application/json; charset=utf-8',
        'content-length': Math.max(2, body.length),
      })
      reply.raw.write(body.subarray(0, body.length / 2), () => request.raw.socket.destroy())
      return forever()
    }
    default:
      return payload
  }
}

/** `onHang` is called for the hanging calls that no rule ends. */
async function hang(ctx: Context, request: FastifyRequest, delayMs: number | null): Promise<never> {
  const ended = new AbortController()
  const end = () => ended.abort()
  ctx.hanging.add(end)
  request.raw.socket.once('close', end)
  const { method, url, headers } = request
  if (delayMs === null) ctx.onHang({ method, url, headers })
  const options = { ref: false, signal: ended.signal }
  await sleep(delayMs ?? hangMs, undefined, options).catch(() => {})
  ctx.hanging.delete(end)
  return cut(request)
}

function cut(request: FastifyRequest): Promise<never> {
  request.raw.socket.destroy()
  return forever()
}

/** Never resolves: the socket is closed, so no caller waits for this call. */
function forever(): Promise<never> {
  return new Promise(() => {})
}

/** Sets status and headers of `reply` by the rule and returns the body: the provider's, or a gateway's. */
function faultAnswer(request: FastifyRequest, reply: FastifyReply, rule: FaultRule): string {
  const message = `The sandbox is set to answer ${rule.status}.`
  reply.code(rule.status)
  if (rule.retry_after !== null) reply.header('retry-after', String(rule.retry_after))
  if (rule.form === 'html') {
    reply.type('text/html')
    return `<html><head><title>${rule.status}</title></head><body><h1>${message}</h1></body></html>`
  }
  reply.type('application/json; charset=utf-8')
  if (rule.form === 'bare') return JSON.stringify({ message })
  const limited = request.url.startsWith('/oauth/') ? 'local_rate_limited' : 'too_many_requests'
  const code = rule.code ?? (rule.status === 429 ? limited : String(rule.status))
  const path = request.url.split('?')[0] ?? ''
  const item = { code, message, ...(rule.cause !== null && { cause: rule.cause }) }
  return JSON.stringify(errorBody(rule.status, [item], envelopeOf(path)))
}
