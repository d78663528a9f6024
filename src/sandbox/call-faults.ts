import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Context } from './context.ts'
import { ApiError } from './errors.ts'
import type { CallFault, Fault } from './faults.ts'
import type { LoggedRequest } from './request-log.ts'
import { maskBody } from './request-log.ts'

/** How long a hanging call is held when the rule names no time. Callers give up long before. */
const hangMs = 60_000

type Hit = { kind: CallFault; rule: Fault }

/** Writes the request log and makes calls to the provider's API misbehave as the fault rules say. */
export function callHooks(app: FastifyInstance, ctx: Context): void {
  const logged = new WeakMap<FastifyRequest, LoggedRequest>()
  const hits = new WeakMap<FastifyRequest, Hit[]>()

  app.addHook('onRequest', async (request) => {
    if (!isProviderCall(request)) return
    const [path = '', query = ''] = request.url.split('?', 2)
    const at = new Date(ctx.nowMs()).toISOString()
    const token = /^Bearer (.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? ''
    const user_id = ctx.world.tables.accessTokens.get(token)?.userId ?? null
    const entry = { at, method: request.method, path, query, body: null, user_id, status: null }
    logged.set(request, ctx.requests.start({ ...entry, fault: null }, request.headers))
  })

  app.addHook('preHandler', async (request) => {
    const entry = logged.get(request)
    if (entry === undefined) return
    entry.body = maskBody(request.body)
    const found = ctx.faults.onCall(request.method, entry.path, entry.user_id)
    if (found.length === 0) return
    hits.set(request, found)
    entry.fault = found.map(({ kind }) => kind).join(' ')
    for (const hit of found) await beforeEffect(request, hit)
  })

  app.addHook('onSend', async (request, reply, payload) => {
    const entry = logged.get(request)
    if (entry !== undefined) entry.status = reply.statusCode
    for (const hit of hits.get(request) ?? []) await afterEffect(request, reply, payload, hit)
    return payload
  })
}

/** True for the provider's own paths: not the control surface, not the page. */
export function isProviderCall(request: FastifyRequest): boolean {
  const path = request.url.split('?')[0] ?? ''
  return !/^\/($|_sandbox(\/|$)|page\/|terminals$|favicon\.ico$)/.test(path)
}

async function beforeEffect(request: FastifyRequest, { kind, rule }: Hit): Promise<void> {
  switch (kind) {
    case 'latency':
      return sleep(rule.delayMs ?? 1000, undefined, { ref: false })
    case 'status':
      throw statusError(request, rule)
    case 'drop_before':
      request.raw.socket.destroy()
      return forever()
    case 'reset':
      request.raw.socket.resetAndDestroy()
      return forever()
    case 'hang_before':
      return hang(request, rule)
    default:
  }
}

async function afterEffect(
  request: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
  { kind, rule }: Hit,
): Promise<void> {
  switch (kind) {
    case 'latency_after':
      return sleep(rule.delayMs ?? 1000, undefined, { ref: false })
    case 'drop_after':
      request.raw.socket.destroy()
      return forever()
    case 'hang_after':
      return hang(request, rule)
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
  }
}

async function hang(request: FastifyRequest, rule: Fault): Promise<void> {
  await sleep(rule.delayMs ?? hangMs, undefined, { ref: false })
  request.raw.socket.destroy()
  return forever()
}

/** Nothing waits for this call any more: its socket is gone, and the promise goes with it. */
function forever(): Promise<never> {
  return new Promise(() => {})
}

function statusError(request: FastifyRequest, rule: Fault): ApiError {
  const limited = request.url.startsWith('/oauth/') ? 'local_rate_limited' : 'too_many_requests'
  const code = rule.code ?? (rule.status === 429 ? limited : String(rule.status))
  const headers = rule.retryAfter === null ? {} : { 'retry-after': String(rule.retryAfter) }
  return new ApiError(
    rule.status,
    { code, message: `The sandbox was told to answer ${rule.status}.` },
    { headers },
  )
}
