import type { Answer } from '../../outbound/guarded-request.ts'
import type { Reason } from '../../texts/reason.ts'
import { compileExpression, type Expression } from '../mapping/expression.ts'
import { ExpressionError, shortReason } from '../mapping/expression-error.ts'
import { jsonOf } from '../net/http-text.ts'
import type { Remembered } from '../types.ts'

/** JSONata expressions over the response's JSON (with `$pk` and `$headers`), by the name under which the value is remembered. */
export type RememberedValueRules = Readonly<Record<string, string>>

/**
 * Why a response neither has the values nor shows that there are none. `mayPass`: a later response may be clear, as after
 * maintenance.
 */
type Unclear = { unclear: Reason; mayPass?: boolean }

type Extracted = { values: Remembered } | Unclear | undefined

type Memory = {
  /**
   * All values that the response has for the item `pk`; undefined when one is missing. Rejects with ExpressionError after a
   * timeout: treating that as missing could create an item twice.
   */
  of(answer: Answer, pk: string): Promise<Extracted>
}

const longestStored = 1_024
/** Maximum length of a value that is used for one request and not stored. */
export const longestFresh = 65_536

/** @param hide removes secrets from a text, because a response may repeat them. */
export function compileRememberedValues(
  rules: RememberedValueRules,
  hide: (text: string) => string,
  longestValue = longestStored,
): Memory {
  const expressions = Object.entries(rules).map(
    ([name, text]) => [name, compileExpression(text)] as const,
  )
  return {
    of: async (answer, pk) => {
      if (answer.isCut) return { unclear: { code: 'ANSWER_CUT' } }
      if (answer.body.length === 0) return undefined
      const document = jsonOf(answer)
      if (document === undefined) return { unclear: { code: 'ANSWER_NO_JSON' }, mayPass: true }
      const values: Record<string, string | number | boolean> = {}
      for (const [name, expression] of expressions) {
        const given = { document, headers: answer.headers, pk }
        const value = await pick(name, expression, given, hide)
        if (typeof value === 'string' && value.length > longestValue) {
          return { unclear: { code: 'REMEMBER_TOO_LONG', data: { name } } }
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
    const what = shortReason(error, { most: 200, hide })
    return { unclear: { code: 'REMEMBER_FAILED', data: { name, what } } }
  }
  if (Array.isArray(value)) {
    if (value.length > 1) {
      return { unclear: { code: 'REMEMBER_MANY', data: { count: value.length, name } } }
    }
    value = value[0]
  }
  if (value === undefined || value === null || value === '') return undefined
  if (typeof value === 'object') return { unclear: { code: 'REMEMBER_OBJECT', data: { name } } }
  return value as string | number | boolean
}
