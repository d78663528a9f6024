import { type LeaseDeps, withLease } from './with-lease.ts'

/** Work of no request, repeated until the job is stopped. `T` is the result of a run. */
export type BackgroundJob<T> = {
  /** Starts the loop. A second call has no effect. */
  start(): void
  /** Runs soon: ends the wait, or causes one more run at once after the current one. No effect before `start`. */
  wake(): void
  /** One run outside the loop. Rejects if the run fails. */
  once(): Promise<T>
  /** Aborts the wait and the signal of every run, and resolves when the loop has ended. */
  stop(): Promise<void>
}

export type BackgroundJobDeps = {
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  log: { error(fields: object, message: string): void }
}

export type BackgroundJobOptions<T> = {
  /** The field `job` of the log. */
  name: string
  /** The longest wait after a run, failed or not. */
  intervalMs: number
  /** `signal` aborts at a stop, and when the lease was lost. A failure is logged; it never ends the loop. */
  run(signal: AbortSignal): Promise<T>
  /** The first run comes after `intervalMs`, not at the start. */
  waitsFirst?: boolean
  /** Called after each run: how long to wait when that is shorter than `intervalMs`. */
  untilNextMs?(): Promise<number>
  /** Runs once at the stop of a job that was started, after its last run. */
  finish?(): Promise<unknown>
}

/** One process at a time runs the job, under the lease of this name. */
type JobLease = {
  deps: LeaseDeps
  /** Called before the lease is taken, so that a process without work writes nothing. */
  isDue?(): Promise<boolean>
}

/** With a lease, `once` resolves with undefined when nothing is due or another process has the lease. */
export function createBackgroundJob<T>(
  deps: BackgroundJobDeps,
  options: BackgroundJobOptions<T> & { lease: JobLease },
): BackgroundJob<T | undefined>
export function createBackgroundJob<T>(
  deps: BackgroundJobDeps,
  options: BackgroundJobOptions<T>,
): BackgroundJob<T>
export function createBackgroundJob<T>(
  deps: BackgroundJobDeps,
  options: BackgroundJobOptions<T> & { lease?: JobLease },
): BackgroundJob<T | undefined> {
  const { name, intervalMs, run, lease } = options
  const stopped = new AbortController()
  let isWoken = false
  let waiting: AbortController | undefined
  let loop: Promise<void> | undefined
  let stopping: Promise<void> | undefined

  const once = async (): Promise<T | undefined> => {
    if (!lease) return run(stopped.signal)
    if (lease.isDue && !(await lease.isDue())) return undefined
    const done = await withLease(lease.deps, name, ({ signal }) =>
      run(AbortSignal.any([stopped.signal, signal])),
    )
    return done?.result
  }

  const logFailure = (error: unknown): undefined => {
    deps.log.error({ err: error, job: name }, 'background job failed')
  }

  const wait = async () => {
    const soonerMs = await options.untilNextMs?.().catch(logFailure)
    if (isWoken || stopped.signal.aborted) return
    waiting = new AbortController()
    await deps.sleep(Math.min(intervalMs, soonerMs ?? intervalMs), waiting.signal).catch(() => {})
    waiting = undefined
  }

  const work = async () => {
    if (options.waitsFirst) await wait()
    while (!stopped.signal.aborted) {
      isWoken = false
      await once().catch(logFailure)
      await wait()
    }
  }

  const stop = async () => {
    stopped.abort()
    waiting?.abort()
    if (!loop) return
    await loop
    await options.finish?.().catch(logFailure)
  }

  return {
    once,
    start() {
      loop ??= work()
    },
    wake() {
      if (!loop) return
      isWoken = true
      waiting?.abort()
    },
    stop: () => (stopping ??= stop()),
  }
}
