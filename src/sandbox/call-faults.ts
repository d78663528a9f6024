import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { envelopeOf, errorBody } from './errors.ts'
import type { CallFault, Fault } from './faults.ts'
import { hasArrivedLate, holdCall } from './late-calls.ts'
import type { LoggedRequest } from './request-log.ts'
import { maskBody } from './request-log.ts'
import type { Context } from './sandbox-context.ts'

/** How long a hanging call lasts when the rule has no time. Callers give up long before. */
const hangMs = 60_000

type Hit = { kind: CallFault; rule: Fault }

/** Writes the request log and applies the fault rules to calls of the provider's API. */
export function callHooks(app: FastifyInstance, ctx: Context): void {
  const logged = new WeakMap<FastifyRequest, LoggedRequest>()
  const hits = new WeakMap<FastifyRequest, Hit[]>()

  app.addHook('onRequest', async (request) => {
    if (!isProviderCall(request)) return
    const [path = '', query = ''] = request.url.split('?', 2)
    const at = new Date(ctx.nowMs()).toISOString()
    const token = /^Bearer (.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? ''
    const user_id = ctx.state.tables.accessTokens.get(token)?.userId ?? null
    const entry = { at, method: request.method, path, query, body: null, user_id, status: null }
    logged.set(request, ctx.requests.start({ ...entry, fault: null }, request.headers))
  })

  app.addHook('preHandler', async (request, reply) => {
    const entry = logged.get(request)
    if (entry === undefined) return
    entry.body = maskBody(request.body)
    if (hasArrivedLate(ctx, request)) {
      entry.fault = 'arrived_late'
      return
    }
    const found = ctx.faults.onCall(request.method, entry.path, entry.user_id)
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

/** True for the provider's own paths: not the control surface, not the page. */
export function isProviderCall(request: FastifyRequest): boolean {
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
      return sleep(rule.delayMs ?? 1000, undefined, { ref: false })
    case 'status':
      await reply.send(faultAnswer(request, reply, rule))
      return
    case 'arrive_late':
      holdCall(ctx, request, rule.delayMs ?? 1000)
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
      return hang(ctx, request, rule.delayMs)
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
      await sleep(rule.delayMs ?? 1000, undefined, { ref: false })
      return payload
    case 'status_after':
      return faultAnswer(request, reply, rule)
    case 'drop_after':
      return cut(request)
    case 'hang_after':
      return hang(ctx, request, rule.delayMs)
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
function faultAnswer(request: FastifyRequest, reply: FastifyReply, rule: Fault): string {
  const message = `The sandbox is set to answer ${rule.status}.`
  reply.code(rule.status)
  if (rule.retryAfter !== null) reply.header('retry-after', String(rule.retryAfter))
  if (rule.form === 'html') {
    reply.type('text/html')
    return `<html><head><title>${rule.status}</title></head><body><h1>${message}</h1></body></html>`
  }
  reply.type('application/json; charset=utf-8')
  if (rule.form === 'bare') return JSON.stringify({ message })
  const limited = request.url.startsWith('/oauth/') ? 'local_rate_limited' : 'too_many_requests'
  const code = rule.code ?? (rule.status === 429 ? limited : String(rule.status))
  const path = request.url.split('?')[0] ?? ''
  return JSON.stringify(errorBody(rule.status, [{ code, message }], envelopeOf(path)))
}
