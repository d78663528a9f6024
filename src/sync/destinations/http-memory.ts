import { compileExpression } from '../mapping/expression.ts'
import { ExpressionError } from '../mapping/expression-error.ts'
import type { Remembered } from '../types.ts'
import type { Answer } from './http-exchange.ts'
import { jsonOf } from './http-judge.ts'

/** Values of an answer, each JSONata over its JSON (with `$pk`), by the name under which they are remembered. */
export type MemoryRules = Readonly<Record<string, string>>

export type Memory = {
  /**
   * All values that the answer has for the item `pk`, or undefined when it lacks one. Rejects with ExpressionError when the time
   * was up: that says nothing, and who took it for nothing would create an item twice.
   */
  of(answer: Answer, pk: string): Promise<Remembered | undefined>
}

const longestValue = 1_024

export function compileMemory(rules: MemoryRules): Memory {
  const expressions = Object.entries(rules).map(
    ([name, text]) => [name, compileExpression(text)] as const,
  )
  return {
    of: async (answer, pk) => {
      const document = jsonOf(answer.body)
      if (document === undefined) return undefined
      const found: Record<string, string | number | boolean> = {}
      for (const [name, expression] of expressions) {
        const value = await orNothing(expression.evaluate(document, { pk }))
        if (!isShort(value)) return undefined
        found[name] = value
      }
      return found
    },
  }
}

function isShort(value: unknown): value is string | number | boolean {
  if (typeof value === 'string') return value !== '' && value.length <= longestValue
  return typeof value === 'number' || typeof value === 'boolean'
}

async function orNothing(value: Promise<unknown>): Promise<unknown> {
  try {
    return await value
  } catch (error) {
    if (error instanceof ExpressionError && !error.outOfTime) return undefined
    throw error
  }
}
