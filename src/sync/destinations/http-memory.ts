import { shorten } from '../mapping/excerpt.ts'
import { compileExpression, type Expression } from '../mapping/expression.ts'
import { ExpressionError } from '../mapping/expression-error.ts'
import type { Remembered } from '../types.ts'
import type { Answer } from './http-exchange.ts'
import { jsonOf } from './http-text.ts'

/** Values of an answer, each JSONata over its JSON (with `$pk`), by the name under which they are remembered. */
export type MemoryRules = Readonly<Record<string, string>>

/** Why an answer neither has the values nor shows that there are none, for people. `mayPass`: as a page of maintenance does. */
type Unclear = { unclear: string; mayPass?: boolean }

export type Told = { values: Remembered } | Unclear | undefined

export type Memory = {
  /**
   * All values that the answer has for the item `pk`, or undefined when it lacks one. Rejects with ExpressionError when the time
   * was up: that says nothing, and who took it for nothing would create an item twice.
   */
  of(answer: Answer, pk: string): Promise<Told>
}

const longestValue = 1_024

/** @param hide takes out of a text what an answer may repeat and nobody may see. */
export function compileMemory(rules: MemoryRules, hide: (text: string) => string): Memory {
  const expressions = Object.entries(rules).map(
    ([name, text]) => [name, compileExpression(text)] as const,
  )
  return {
    of: async (answer, pk) => {
      if (answer.isCut) return { unclear: 'is too large to be read' }
      if (answer.body.length === 0) return undefined
      const document = jsonOf(answer)
      if (document === undefined) return { unclear: 'is no JSON', mayPass: true }
      const values: Record<string, string | number | boolean> = {}
      for (const [name, expression] of expressions) {
        const value = await pick(name, expression, document, pk, hide)
        if (value === undefined || typeof value === 'object') return value
        values[name] = value
      }
      return { values }
    },
  }
}

async function pick(
  name: string,
  expression: Expression,
  document: unknown,
  pk: string,
  hide: (text: string) => string,
): Promise<string | number | boolean | Unclear | undefined> {
  let value: unknown
  try {
    value = await expression.evaluate(document, { pk })
  } catch (error) {
    if (!(error instanceof ExpressionError) || error.outOfTime) throw error
    return { unclear: `makes remember.${name} fail: ${shorten(hide(error.message), 200)}` }
  }
  if (Array.isArray(value)) {
    if (value.length > 1) return { unclear: `has ${value.length} values for ${name}, not one` }
    value = value[0]
  }
  if (value === undefined || value === null || value === '') return undefined
  if (typeof value === 'object') return { unclear: `has an object for ${name}` }
  if (typeof value !== 'string') return value as number | boolean
  return value.length > longestValue ? { unclear: `has too long a value for ${name}` } : value
}
