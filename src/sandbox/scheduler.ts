import type { FastifyInstance } from 'fastify'
import { nextDue, runDue } from './due.ts'
import { arriveDue } from './late-calls.ts'
import type { Context } from './sandbox-context.ts'
import type { WebhookSender } from './webhook-sender.ts'

/** One timer for everything with a time: terminals, events, expiry, delayed calls, webhooks. */
export function createScheduler(app: FastifyInstance, ctx: Context, sender: WebhookSender) {
  let timer: NodeJS.Timeout | undefined
  let queued: NodeJS.Immediate | undefined
  let closed = false

  function tick(): void {
    queued = undefined
    try {
      runDue(ctx)
      sender.sendDue()
      arriveDue(app, ctx).catch(warn)
    } catch (error) {
      warn(error)
    }
    arm()
  }

  // A full disk must not end the process; the work stays due.
  function warn(error: unknown): void {
    process.emitWarning(error instanceof Error ? error : String(error))
  }

  function arm(): void {
    clearTimeout(timer)
    if (closed) return
    const next = Math.min(nextDue(ctx) ?? Infinity, sender.nextAt() ?? Infinity)
    if (next === Infinity) return
    // At least 10 ms, so that a failing step does not loop; at most a minute, since clocks are set.
    const delayMs = Math.min(60_000, Math.max(10, next - ctx.nowMs()))
    timer = setTimeout(tick, delayMs)
  }

  return {
    wake: () => {
      if (!closed) queued ??= setImmediate(tick)
    },
    close: () => {
      closed = true
      clearTimeout(timer)
      clearImmediate(queued)
    },
  }
}
