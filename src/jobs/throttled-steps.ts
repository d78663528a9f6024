import type { Step } from '../db/steps.ts'

type StepDeps = {
  stopwatch: () => number
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
}

/** The pause after a step lets other requests run: several times as long as the step. */
const pauseFactor = 9
const minPauseMs = 50

/**
 * Steps with a pause after each. Once `signal` is aborted, a pause ends at once and the next step throws the signal's
 * reason.
 */
export function createThrottledSteps({ stopwatch, sleep }: StepDeps, signal: AbortSignal): Step {
  return async (work) => {
    signal.throwIfAborted()
    const beganAt = stopwatch()
    const result = await work()
    const pauseMs = Math.max(minPauseMs, pauseFactor * (stopwatch() - beganAt))
    await sleep(pauseMs, signal).catch(() => undefined)
    return result
  }
}
