import type { Answer } from '../../outbound/exchange.ts'
import { shorten } from '../mapping/excerpt.ts'
import { compileExpression, type Expression } from '../mapping/expression.ts'
import { ExpressionError } from '../mapping/expression-error.ts'
import type { Remembered } from '../types.ts'
import { jsonOf } from './http-text.ts'

/** Values of an answer, each JSONata over its JSON (with `$pk` and `$headers`), by the name under which they are remembered. */
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

const longestStored = 1_024
/** A value of one request is not stored. */
export const longestFresh = 65_536

/** @param hide removes secrets from a text: an answer may repeat them. */
export function compileMemory(
  rules: MemoryRules,
  hide: (text: string) => string,
  longestValue = longestStored,
): Memory {
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
        const given = { document, headers: answer.headers, pk }
        const value = await pick(name, expression, given, hide)
        if (typeof value === 'string' && value.length > longestValue) {
          return { unclear: `has too long a value for ${name}` }
        }
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
  { document, headers, pk }: { document: unknown; headers: Answer['headers']; pk: string },
  hide: (text: string) => string,
): Promise<string | number | boolean | Unclear | undefined> {
  let value: unknown
  try {
    value = await expression.evaluate(document, { pk, headers })
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
  return value as string | number | boolean
}
