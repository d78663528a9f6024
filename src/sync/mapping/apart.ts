import { Worker } from 'node:worker_threads'
import { ExpressionError } from './expression-error.ts'
import { createFairQueue } from './fair-queue.ts'
import type { Answer, Question } from './worker.ts'

/**
 * jsonata's own limit ends most at 250 ms; this ends what never asks it: a regular expression gone wild, or `$distinct` of 5,000
 * entries, which takes seconds. So an engine for regular expressions with a limit (re2js) would not replace the thread.
 */
const hardTimeoutMs = 400
const memory = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 32 }

type Task = {
  owner: object
  question: Question
  resolve(result: unknown): void
  reject(error: Error): void
}

/** A thread, and what waits for it. */
type Lane = { prepare(): void; add(task: Task): void }

/** Beyond that an expression counts as slow, and goes where it delays slow ones only. */
const slowMs = 50
/** Of what an expression took before, at each evaluation: a slow one counts as quick after some quick ones. */
const fading = 0.9
/** What evaluations of an expression have taken. */
const tookMs = new WeakMap<object, number>()

const quick = createLane()
const slow = createLane()

/**
 * Evaluates in a thread of its own, one after another, and ends the thread when it takes longer than 400 ms or more
 * memory than 128 MiB. Owners take turns, and those whose evaluations are slow have a thread beside that of the others. Rejects with
 * ExpressionError.
 */
export async function evaluateApart(owner: object, question: Question): Promise<unknown> {
  return await new Promise((resolve, reject) => {
    const lane = (tookMs.get(owner) ?? 0) > slowMs ? slow : quick
    lane.add({ owner, question, resolve, reject })
  })
}

/** Starts the thread ahead of the first question. */
export function prepareThread(): void {
  quick.prepare()
}

function createLane(): Lane {
  const waiting = createFairQueue<Task>()
  let worker: Worker | undefined
  let ready = false
  let current: (Task & { timer: NodeJS.Timeout; beganAt: number }) | undefined

  const next = (): void => {
    if (current || waiting.isEmpty) return
    worker ??= start()
    // While there is work the thread keeps the process alive, as any call under way does.
    worker.ref()
    if (!ready) return
    const task = waiting.take()
    if (!task) return
    const seconds = hardTimeoutMs / 1_000
    const timer = setTimeout(() => {
      replaceThread(
        new ExpressionError(`the expression ran longer than ${seconds} s and was ended`, {
          outOfTime: true,
        }),
      )
    }, hardTimeoutMs)
    current = { ...task, timer, beganAt: performance.now() }
    worker.postMessage(task.question)
  }

  const start = (): Worker => {
    const started = new Worker(new URL('./worker.ts', import.meta.url), {
      execArgv: [],
      env: {},
      resourceLimits: memory,
    })
    started.unref()
    ready = false
    started.on('message', (message: 'ready' | Answer) => {
      if (started !== worker) return
      if (message === 'ready') ready = true
      else settle(message)
      if (waiting.isEmpty && !current) started.unref()
      next()
    })
    started.on('error', (error: Error & { code?: string }) => {
      if (started !== worker) return
      const outOfMemory = error.code === 'ERR_WORKER_OUT_OF_MEMORY'
      replaceThread(
        new ExpressionError(
          outOfMemory ? 'the expression used too much memory and was ended' : error.message,
        ),
      )
    })
    started.on('exit', () => {
      if (started === worker) replaceThread(new ExpressionError('the expression ended its thread'))
    })
    return started
  }

  /** Ends what is current, if anything is, and notes what it took. */
  const endCurrent = (): Task | undefined => {
    const ended = current
    current = undefined
    if (!ended) return undefined
    clearTimeout(ended.timer)
    const before = tookMs.get(ended.owner) ?? 0
    tookMs.set(ended.owner, Math.max(performance.now() - ended.beganAt, before * fading))
    return ended
  }

  /** Fails what runs, or what waited for a thread that does not start, and goes on with the rest in a new thread. */
  const replaceThread = (error: ExpressionError): void => {
    const old = worker
    const wasReady = ready
    worker = undefined
    ready = false
    // Nobody waits for its end: it is out of use from here on.
    void old?.terminate()
    const failed = endCurrent() ?? waiting.take()
    failed?.reject(error)
    // One that did not even start is tried again only for the next question.
    if (wasReady) worker ??= start()
    next()
  }

  const settle = (answer: Answer): void => {
    const ended = endCurrent()
    if ('result' in answer) ended?.resolve(answer.result)
    else ended?.reject(new ExpressionError(answer.message, answer))
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
