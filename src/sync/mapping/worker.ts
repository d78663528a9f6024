import { parentPort } from 'node:worker_threads'
import { type ExpressionError, toExpressionError } from './expression-error.ts'
import { compileGuarded, type Guarded, type Variables } from './guarded.ts'

/** What the thread is asked, and what it answers; `ready` once it can be asked. */
export type Question = { text: string; value: unknown; variables?: Variables | undefined }
export type Answer =
  | { result: unknown }
  | { message: string; position: number | undefined; outOfTime: boolean }

const maxCompiled = 1_000
const compiled = new Map<string, Guarded>()

function compile(text: string): Guarded {
  const known = compiled.get(text)
  if (known) return known
  if (compiled.size >= maxCompiled) compiled.clear()
  const fresh = compileGuarded(text)
  compiled.set(text, fresh)
  return fresh
}

async function answer({ text, value, variables }: Question): Promise<Answer> {
  try {
    return { result: await compile(text).evaluate(value, variables) }
  } catch (thrown) {
    const { message, position, outOfTime }: ExpressionError = toExpressionError(thrown)
    return { message, position, outOfTime }
  }
}

parentPort?.on('message', async (question: Question) => {
  parentPort?.postMessage(await answer(question))
})
parentPort?.postMessage('ready')
