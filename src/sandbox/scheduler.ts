import type { FastifyInstance } from 'fastify'
import { nextDue, runDue } from './due.ts'
import { arriveDue } from './late-calls.ts'
import type { Context } from './sandbox-context.ts'
import type { WebhookSender } from './webhook-sender.ts'

/** One timer for everything that has a time: terminals, events, expiry, calls that arrive late, webhooks. */
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

  // A full disk must not end the process this runs in; what is due stays due.
  function warn(error: unknown): void {
    process.emitWarning(error instanceof Error ? error : String(error))
  }

  function arm(): void {
    clearTimeout(timer)
    if (closed) return
    const next = Math.min(nextDue(ctx) ?? Infinity, sender.nextAt() ?? Infinity)
    if (next === Infinity) return
    // Not below 10 ms, so a time that cannot be kept costs nothing; at most a minute, since clocks are set.
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
