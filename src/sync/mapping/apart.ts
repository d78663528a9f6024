import { Worker } from 'node:worker_threads'
import { ExpressionError } from './expression-error.ts'
import type { Answer, Question } from './worker.ts'

/** jsonata's own limit ends most at 250 ms; this ends what never asks it, such as a regular expression gone wild. */
const hardTimeoutMs = 400
const memory = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 32 }

type Task = { question: Question; resolve(result: unknown): void; reject(error: Error): void }

const waiting: Task[] = []
let worker: Worker | undefined
let ready = false
let current: (Task & { timer: NodeJS.Timeout }) | undefined

/**
 * Evaluates in a thread of its own, one after another, and ends the thread when it takes longer than 400 ms or more
 * memory than 128 MiB. Rejects with ExpressionError.
 */
export async function evaluateApart(question: Question): Promise<unknown> {
  return await new Promise((resolve, reject) => {
    waiting.push({ question, resolve, reject })
    next()
  })
}

/** Starts the thread ahead of the first question. */
export function prepareThread(): void {
  worker ??= start()
}

function next(): void {
  if (current || waiting.length === 0) return
  worker ??= start()
  // While there is work the thread keeps the process alive, as any call under way does.
  worker.ref()
  if (!ready) return
  const task = waiting.shift()
  if (!task) return
  const seconds = hardTimeoutMs / 1_000
  const timer = setTimeout(() => {
    replaceThread(
      new ExpressionError(`the expression ran longer than ${seconds} s and was ended`, {
        outOfTime: true,
      }),
    )
  }, hardTimeoutMs)
  current = { ...task, timer }
  worker.postMessage(task.question)
}

function start(): Worker {
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
    if (waiting.length === 0 && !current) started.unref()
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

/** Fails what runs, or what waited for a thread that does not start, and goes on with the rest in a new thread. */
function replaceThread(error: ExpressionError): void {
  const old = worker
  const wasReady = ready
  worker = undefined
  ready = false
  // Nobody waits for its end: it is out of use from here on.
  void old?.terminate()
  if (current) clearTimeout(current.timer)
  const failed = current ?? waiting.shift()
  current = undefined
  failed?.reject(error)
  // One that did not even start is tried again only for the next question.
  if (wasReady) prepareThread()
  next()
}

function settle(answer: Answer): void {
  if (!current) return
  const { timer, resolve, reject } = current
  clearTimeout(timer)
  current = undefined
  if ('result' in answer) resolve(answer.result)
  else reject(new ExpressionError(answer.message, answer))
}
