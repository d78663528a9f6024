import type { Database } from '../../db/database.ts'
import { AppError } from '../../errors/app-error.ts'
import { findLease } from '../../repositories/leases.ts'
import type { Deliveries } from '../deliver/deliver.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { CutOff, previewPoll } from '../poll/preview.ts'
import type { PreviewLimits, SyncPreview } from '../sync-preview.ts'
import { SourceClosedError, SourceError } from '../types.ts'

export type Previews = {
  /**
   * What a poll of the flow would do now. Throws RATE_LIMITED when there are too many, CONFLICT when the flow was polled or
   * changed meanwhile, PROVIDER_ERROR with the words of a source that cannot be read, and the reason of `signal`.
   */
  preview(runtime: FlowRuntime, limits: PreviewLimits, signal: AbortSignal): Promise<SyncPreview>
}

export type PreviewsDeps = {
  database: Database
  deliveries: Pick<Deliveries, 'rehearsals'>
  now: () => Date
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  /** The runtime of a flow that is open now. */
  current: (flow: string) => FlowRuntime | undefined
}

/** Of this process: each reads a source and shares the thread that serves the tills. */
const atOnce = 2
/** A flow's source then rests as long as it was read, within these bounds. */
const restMs = { least: 1_000, most: 10_000 }
const runningRetrySeconds = 2
const lookEveryMs = 250

/**
 * Previews of polls. They take no lease and polls never wait for them: a preview begins when no process polls the flow, and
 * gives way when one begins, since what it compares with is then changing. One at a time for each flow.
 */
export function createPreviews(deps: PreviewsDeps): Previews {
  const { db } = deps.database
  const running = new Set<string>()
  const restUntil = new Map<string, number>()

  const admit = (flow: string) => {
    const waitMs = (restUntil.get(flow) ?? 0) - deps.now().getTime()
    const isResting = waitMs > 0 && waitMs <= restMs.most
    if (!running.has(flow) && running.size < atOnce && !isResting) return
    throw new AppError('RATE_LIMITED', {
      message: running.has(flow)
        ? 'A preview of this flow is running already'
        : isResting
          ? 'A preview of this flow has just ended; let its source rest a moment'
          : `Too many previews are running: ${atOnce} at most`,
      extra: { retryAfterSeconds: isResting ? waitMs / 1_000 : runningRetrySeconds },
    })
  }

  /** Waits until nobody polls the flow. Answers the token of its last poll, which the next one changes. */
  const quiet = async (lease: string, signal: AbortSignal): Promise<number | undefined> => {
    for (;;) {
      const found = await findLease(db, lease, deps.now())
      if (!found?.hasOwner) return found?.token
      signal.throwIfAborted()
      await deps.sleep(lookEveryMs, signal).catch(() => undefined)
    }
  }

  const run = async (
    runtime: FlowRuntime,
    maxRows: number,
    signal: AbortSignal,
  ): Promise<SyncPreview> => {
    const { name } = runtime.flow
    const lease = `flow:${name}`
    const token = await quiet(lease, signal).catch((error) => {
      throw error instanceof CutOff ? disturbed() : error
    })
    const checkUndisturbed = async () => {
      const isSame = (await findLease(db, lease, deps.now()))?.token === token
      if (!isSame || deps.current(name) !== runtime) throw disturbed()
    }
    let lookedAt = performance.now()
    const pulse = async () => {
      if (performance.now() - lookedAt < lookEveryMs) return
      lookedAt = performance.now()
      await checkUndisturbed()
    }
    const rehearsals = deps.deliveries.rehearsals(name)
    try {
      const preview = await previewPoll({ db, now: deps.now, rehearsals, pulse }, runtime, {
        maxRows,
        signal,
      })
      await checkUndisturbed()
      return preview
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof SourceClosedError) throw disturbed()
      if (!(error instanceof SourceError)) throw error
      // A poll may have put the file away that was being read.
      await checkUndisturbed()
      throw new AppError('PROVIDER_ERROR', { message: error.message, cause: error })
    }
  }

  return {
    async preview(runtime, { maxRows, maxSeconds }, signal) {
      const { name } = runtime.flow
      admit(name)
      running.add(name)
      const cut = new AbortController()
      const timer = setTimeout(() => cut.abort(new CutOff('time')), maxSeconds * 1_000)
      const startedAt = performance.now()
      try {
        return await run(runtime, maxRows, AbortSignal.any([signal, cut.signal]))
      } finally {
        clearTimeout(timer)
        running.delete(name)
        const tookMs = performance.now() - startedAt
        const rest = Math.min(restMs.most, Math.max(restMs.least, tookMs))
        restUntil.set(name, deps.now().getTime() + rest)
      }
    },
  }
}

function disturbed(): AppError {
  return new AppError('CONFLICT', {
    message: 'The flow was polled or changed meanwhile, and a preview gives way; ask again',
    extra: { retryAfterSeconds: 1 },
  })
}
