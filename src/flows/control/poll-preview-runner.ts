import type { Database } from '../../db/database.ts'
import type { Reason } from '../../domain/flow-reasons.ts'
import type { AppError } from '../../errors/app-error.ts'
import { findLease } from '../../repositories/leases.ts'
import { controlError } from '../control-errors.ts'
import type { Deliveries } from '../deliver/deliver.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { CutOff, previewPoll } from '../poll/poll-preview.ts'
import { sourceUnreadable } from '../sources/source-failures.ts'
import { SourceClosedError, SourceError } from '../types.ts'
import type { PreviewLimits, SyncPreview } from './control-service-types.ts'

export type PollPreviewRunner = {
  /**
   * What a poll of the flow would do now. Throws RATE_LIMITED if too many run, and CONFLICT if the flow was polled or
   * changed meanwhile. Throws PROVIDER_ERROR with the error of an unreadable source, and the reason of `signal`.
   */
  preview(runtime: FlowRuntime, limits: PreviewLimits, signal: AbortSignal): Promise<SyncPreview>
}

export type PollPreviewRunnerDeps = {
  database: Database
  deliveries: Pick<Deliveries, 'deliveryPreviews'>
  now: () => Date
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  /** The runtime of a flow that is open now. */
  current: (flow: string) => FlowRuntime | undefined
}

/** In this process. Each preview reads a source and shares the thread that serves charges. */
const atOnce = 2
/** The pause of a source after a preview is as long as its read, within these bounds. */
const pauseMs = { least: 1_000, most: 10_000 }
const runningRetrySeconds = 2
const checkEveryMs = 250

/**
 * Previews of polls. They take no lease, so polls never wait for them. A preview starts when no process polls the
 * flow, and ends when a poll begins, because the stored items then change. One at a time per flow.
 */
export function createPollPreviewRunner(deps: PollPreviewRunnerDeps): PollPreviewRunner {
  const { db } = deps.database
  const running = new Set<string>()
  const pausedUntil = new Map<string, number>()

  const admit = (flow: string) => {
    const waitMs = (pausedUntil.get(flow) ?? 0) - deps.now().getTime()
    const isPaused = waitMs > 0 && waitMs <= pauseMs.most
    if (!running.has(flow) && running.size < atOnce && !isPaused) return
    const why: Reason = running.has(flow)
      ? { code: 'PREVIEW_RUNNING' }
      : isPaused
        ? { code: 'PREVIEW_JUST_ENDED' }
        : { code: 'PREVIEWS_TOO_MANY', data: { most: atOnce } }
    const retryAfterSeconds = isPaused ? waitMs / 1_000 : runningRetrySeconds
    throw controlError('RATE_LIMITED', why, { extra: { retryAfterSeconds } })
  }

  /** Waits until no process polls the flow. Returns the token of its last poll; the next poll changes it. */
  const waitUntilIdle = async (lease: string, signal: AbortSignal): Promise<number | undefined> => {
    for (;;) {
      const found = await findLease(db, lease, deps.now())
      if (!found?.hasOwner) return found?.token
      signal.throwIfAborted()
      await deps.sleep(checkEveryMs, signal).catch(() => undefined)
    }
  }

  const run = async (
    runtime: FlowRuntime,
    maxRows: number,
    signal: AbortSignal,
  ): Promise<SyncPreview> => {
    const { name } = runtime.flow
    const lease = `flow:${name}`
    const token = await waitUntilIdle(lease, signal).catch((error) => {
      throw error instanceof CutOff ? disturbed() : error
    })
    const checkUndisturbed = async () => {
      const isSame = (await findLease(db, lease, deps.now()))?.token === token
      if (!isSame || deps.current(name) !== runtime) throw disturbed()
    }
    let checkedAt = performance.now()
    const checkWanted = async () => {
      if (performance.now() - checkedAt < checkEveryMs) return
      checkedAt = performance.now()
      await checkUndisturbed()
    }
    const deliveryPreviews = deps.deliveries.deliveryPreviews(name)
    try {
      const preview = await previewPoll(
        { db, now: deps.now, deliveryPreviews, checkWanted },
        runtime,
        {
          maxRows,
          signal,
        },
      )
      await checkUndisturbed()
      return preview
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof SourceClosedError) throw disturbed()
      if (!(error instanceof SourceError)) throw error
      // A poll may have moved the file that was being read.
      await checkUndisturbed()
      throw sourceUnreadable(error)
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
        const sourcePauseMs = Math.min(pauseMs.most, Math.max(pauseMs.least, tookMs))
        pausedUntil.set(name, deps.now().getTime() + sourcePauseMs)
      }
    },
  }
}

function disturbed(): AppError {
  return controlError(
    'CONFLICT',
    { code: 'PREVIEW_DISTURBED' },
    { extra: { retryAfterSeconds: 1 } },
  )
}
