import { Worker } from 'node:worker_threads'
import type { EvaluationLimits } from './evaluate-jsonata.ts'
import type {
  EvaluationAnswer,
  EvaluationRequest,
  ThreadMessage,
} from './evaluation-thread-entry.ts'
import { ExpressionError, expressionTooSlow } from './expression-error.ts'
import { createFairQueue } from './fair-queue.ts'
import { milliseconds } from './thread-cpu.ts'

/** Limits inside the evaluation, checked at each step of an expression. */
const stepLimits: EvaluationLimits = { cpuMs: 250, heapBytes: 134_217_728 }
/**
 * Processor time allowed beyond the limit inside the evaluation. Then the thread is ended, because the expression does not reach
 * its next step: a regular expression that backtracks, or `$distinct` of 5,000 entries, which takes seconds. So a regular
 * expression engine with a limit (re2js) would not replace the thread.
 */
const graceCpuMs = 150
/** Also ends a thread that does not report its processor time within this time. */
const maxReportDelayMs = 400
/** Also ends an evaluation that lasts this long, although its thread is hardly given a processor. */
const longestMs = 30_000
const shortestWaitMs = 20
/**
 * V8 ends the whole process, not the thread, when garbage collection between two tasks finds the heap at this size. So it is far
 * above what an evaluation can reach by the limit at each step and the processor time of a single step.
 */
const memory = { maxOldGenerationSizeMb: 1_024, maxYoungGenerationSizeMb: 32 }

type Task = {
  owner: object
  request: EvaluationRequest
  resolve(result: unknown): void
  reject(error: Error): void
}

/** A worker thread and its queue. */
type EvaluationThread = { prepare(): void; add(task: Task): void }

/** Above this processor time an expression counts as slow. Slow expressions share a separate thread. */
const slowMs = 50
/**
 * Factor by which an expression's recorded time decreases per evaluation. After some fast evaluations a slow expression counts
 * as fast.
 */
const decay = 0.9
/** Recorded processor time per expression, in milliseconds. */
const usedMs = new WeakMap<object, number>()

const fastThread = createThread(stepLimits)
const slowThread = createThread(stepLimits)

/**
 * Evaluates in a worker thread, one request at a time, and ends the thread after 400 ms of processor time or 128 MiB of
 * memory. Owners are served in turn, and slow owners have a separate thread. Rejects with ExpressionError.
 */
export async function evaluateInThread(
  owner: object,
  request: EvaluationRequest,
): Promise<unknown> {
  return await new Promise((resolve, reject) => {
    const thread = (usedMs.get(owner) ?? 0) > slowMs ? slowThread : fastThread
    thread.add({ owner, request, resolve, reject })
  })
}

/** Starts the thread before the first request. */
export function prepareThread(): void {
  fastThread.prepare()
}

/** A thread with limits of its own; exported for tests of the limits. */
export function createThread(limits: EvaluationLimits): EvaluationThread {
  const longestCpuMs = limits.cpuMs + graceCpuMs
  const waiting = createFairQueue<Task>()
  let worker: Worker | undefined
  let ready = false
  let current: (Task & { timer: NodeJS.Timeout; beganAt: number }) | undefined
  /** Processor time of the thread at its last message. */
  let cpuMs = 0

  const next = (): void => {
    if (current || waiting.isEmpty) return
    worker ??= start()
    // A request keeps the process alive, like any pending call.
    worker.ref()
    if (!ready) return
    const task = waiting.take()
    if (!task) return
    const timer = setTimeout(() => void limitCpu(running), longestCpuMs)
    const running = { ...task, timer, beganAt: performance.now() }
    current = running
    worker.postMessage(task.request)
  }

  /** Ends the thread when the request has used its processor time. Otherwise checks again when it may have. */
  const limitCpu = async (task: NonNullable<typeof current>): Promise<void> => {
    const asked = worker
    const isOver = () => current !== task || worker !== asked
    task.timer = setTimeout(() => replaceThread(expressionTooSlow(longestCpuMs)), maxReportDelayMs)
    // Rejects when the thread has already ended; the thread's own events report that.
    const usage = await asked?.cpuUsage().catch(() => undefined)
    if (!usage || isOver()) return
    clearTimeout(task.timer)
    const leftMs = longestCpuMs - (milliseconds(usage) - cpuMs)
    const isTooLong = performance.now() - task.beganAt >= longestMs
    if (leftMs <= 0 || isTooLong) replaceThread(expressionTooSlow(longestCpuMs))
    else task.timer = setTimeout(() => void limitCpu(task), Math.max(leftMs, shortestWaitMs))
  }

  const start = (): Worker => {
    const started = new Worker(new URL('./evaluation-thread-entry.ts', import.meta.url), {
      execArgv: [],
      env: {},
      resourceLimits: memory,
      workerData: limits,
    })
    started.unref()
    ready = false
    started.on('message', (message: ThreadMessage) => {
      if (started !== worker) return
      if (message.answer) finish(message.answer, message.cpuMs - cpuMs)
      else ready = true
      cpuMs = message.cpuMs
      if (waiting.isEmpty && !current) started.unref()
      next()
    })
    started.on('error', (error: Error & { code?: string }) => {
      if (started !== worker) return
      const outOfMemory = error.code === 'ERR_WORKER_OUT_OF_MEMORY'
      replaceThread(
        new ExpressionError(
          outOfMemory
            ? { code: 'EXPRESSION_OUT_OF_MEMORY' }
            : { code: 'SAID', data: { said: error.message } },
        ),
      )
    })
    started.on('exit', () => {
      if (started === worker)
        replaceThread(new ExpressionError({ code: 'EXPRESSION_ENDED_THREAD' }))
    })
    return started
  }

  /** Finishes the current request, if any, and records its processor time. */
  const endCurrent = (taskMs: number): Task | undefined => {
    const ended = current
    current = undefined
    if (!ended) return undefined
    clearTimeout(ended.timer)
    const before = usedMs.get(ended.owner) ?? 0
    usedMs.set(ended.owner, Math.max(taskMs, before * decay))
    return ended
  }

  /** Fails the current request, or the first waiting one if the thread did not start. Then continues with a new thread. */
  const replaceThread = (error: ExpressionError): void => {
    const old = worker
    const wasReady = ready
    worker = undefined
    ready = false
    // No need to wait for its end: it gets no more requests.
    void old?.terminate()
    const failed = endCurrent(longestCpuMs) ?? waiting.take()
    failed?.reject(error)
    // After a failed start, the next request starts a thread.
    if (wasReady) worker ??= start()
    next()
  }

  const finish = (answer: EvaluationAnswer, taskMs: number): void => {
    const ended = endCurrent(taskMs)
    if ('result' in answer) ended?.resolve(answer.result)
    else ended?.reject(new ExpressionError(answer.why, answer))
  }

  return {
    prepare: () => {
      worker ??= start()
    },
    add: (task) => {
      waiting.add(task.owner, task)
      next()
    },
  }
}
