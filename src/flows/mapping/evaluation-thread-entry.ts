import { parentPort, workerData } from 'node:worker_threads'
import type { Reason } from '../../texts/reason.ts'
import {
  type CompiledJsonata,
  compileJsonata,
  type EvaluationLimits,
  type Variables,
} from './evaluate-jsonata.ts'
import { toExpressionError } from './expression-error.ts'
import { threadCpuMs } from './thread-cpu.ts'

/** A request to the thread. */
export type EvaluationRequest = { text: string; value: unknown; variables?: Variables | undefined }
export type EvaluationAnswer =
  | { result: unknown }
  | { why: Reason; position: number | undefined; outOfTime: boolean }

/** A message without an answer means that the thread has started. `cpuMs`: its processor time so far. */
export type ThreadMessage = { answer?: EvaluationAnswer; cpuMs: number }

const limits = workerData as EvaluationLimits
const maxCompiled = 1_000
const compiled = new Map<string, CompiledJsonata>()

function compile(text: string): CompiledJsonata {
  const known = compiled.get(text)
  if (known) return known
  if (compiled.size >= maxCompiled) compiled.clear()
  const fresh = compileJsonata(text, limits)
  compiled.set(text, fresh)
  return fresh
}

async function answer({ text, value, variables }: EvaluationRequest): Promise<EvaluationAnswer> {
  try {
    return { result: await compile(text).evaluate(value, variables) }
  } catch (thrown) {
    const { why, position, outOfTime } = toExpressionError(thrown)
    return { why, position, outOfTime }
  }
}

const post = (message: ThreadMessage) => parentPort?.postMessage(message)

parentPort?.on('message', async (request: EvaluationRequest) => {
  post({ answer: await answer(request), cpuMs: threadCpuMs() })
})
post({ cpuMs: threadCpuMs() })
