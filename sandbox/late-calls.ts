import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Context } from './sandbox-context.ts'

/** A delayed call: its caller has been answered or cut off, and the call takes effect later. */
export type LateCall = {
  arrivesAt: number
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  url: string
  headers: Record<string, string>
  body: string | undefined
}

const mark = 'x-sandbox-late-call'

/** Delays the call by `delayMs` of the sandbox's clock. */
export function holdCall(ctx: Context, request: FastifyRequest, delayMs: number): void {
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(request.headers)) {
    if (typeof value === 'string' && name !== 'content-length') headers[name] = value
  }
  ctx.lateCalls.push({
    arrivesAt: ctx.nowMs() + delayMs,
    method: request.method as LateCall['method'],
    url: request.url,
    headers,
    body: request.body === undefined ? undefined : JSON.stringify(request.body),
  })
  ctx.wake()
}

/**
 * Runs every delayed call that is due, one after the other, and resolves when none is running. A call that arrives
 * meanwhile runs after them. Their answers are not sent.
 */
export async function arriveDue(app: FastifyInstance, ctx: Context): Promise<void> {
  const now = ctx.nowMs()
  const due = ctx.lateCalls.filter((call) => call.arrivesAt <= now)
  if (due.length > 0) {
    ctx.lateCalls = ctx.lateCalls.filter((call) => call.arrivesAt > now)
    const before = ctx.arrivals
    ctx.arrivals = before.then(() => arrive(app, ctx, due))
  }
  await ctx.arrivals
}

async function arrive(app: FastifyInstance, ctx: Context, calls: LateCall[]): Promise<void> {
  for (const { method, url, headers, body } of calls.sort((a, b) => a.arrivesAt - b.arrivesAt)) {
    const id = randomUUID()
    ctx.arriving.add(id)
    await app.inject({
      method,
      url,
      headers: { ...headers, [mark]: id },
      ...(body !== undefined && { payload: body }),
    })
    ctx.arriving.delete(id)
  }
}

/** Whether this is a delayed call; no fault applies to it a second time. */
export function hasArrivedLate(ctx: Context, request: FastifyRequest): boolean {
  return ctx.arriving.has(String(request.headers[mark]))
}
