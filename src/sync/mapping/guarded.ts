import jsonata from 'jsonata'
import { breathe } from '../poll/breather.ts'
import { ExpressionError, toExpressionError } from './expression-error.ts'
import { plainCopy } from './plain-copy.ts'

/** Evaluation time in ms, depth of calls, and entries of a list: options of jsonata since 2.2. */
const guards = { timeout: 250, stack: 200, sequence: 100_000 }
/** No text on the way to the result may be longer: doubling one forty times would end the process. */
const maxTextLength = 1_000_000
const exitHook = Symbol.for('jsonata.__evaluate_exit')

/** What an expression is given besides the value that it looks at: JSON values by name. */
export type Variables = Readonly<Record<string, unknown>>

export type Guarded = {
  /**
   * A copy of the result as plain JSON values, or undefined when there is none; `variables` are `$name` in the expression.
   * Rejects with ExpressionError.
   */
  evaluate(value: unknown, variables?: Variables): Promise<unknown>
  ast: unknown
}

/**
 * JSONata with limits of time, depth and size, and two changes: `$eval` is refused, and `$exists` is false for null,
 * because a database has a null where a JSON document lacks the field. Throws ExpressionError for a syntax error.
 */
export function compileGuarded(text: string): Guarded {
  const expression = parse(text)
  expression.registerFunction('eval', refuseEval)
  expression.registerFunction('exists', exists, '<x:b>')
  expression.registerFunction('pad', pad, '<s-ns?:s>')
  // jsonata looks up this symbol like any name; only its type definition wants a string.
  // It is awaited at each step, which is where others get their turn.
  const atEachStep = (_node: unknown, _input: unknown, _frame: unknown, result: unknown) => {
    refuseLongText(result)
    return breathe()
  }
  expression.assign(exitHook as unknown as string, atEachStep)
  return {
    evaluate: async (value, variables) => {
      try {
        return plainCopy(await expression.evaluate(value, variables && { ...variables }))
      } catch (thrown) {
        throw toExpressionError(thrown)
      }
    },
    ast: expression.ast(),
  }
}

function parse(text: string): jsonata.Expression {
  try {
    return jsonata(text, guards)
  } catch (thrown) {
    throw toExpressionError(thrown)
  }
}

function refuseEval(): never {
  throw new ExpressionError('$eval is not available')
}

function exists(value: unknown): boolean {
  return value !== undefined && value !== null
}

/** As jsonata's own, but within the limit: it would first build the padding, however long. */
function pad(text: string | undefined, width: number, filler?: string): string | undefined {
  if (text === undefined) return undefined
  if (Math.abs(width) > maxTextLength) throw tooLong()
  const missing = Math.abs(width) - [...text].length
  if (missing <= 0) return text
  const unit = [...(filler || ' ')]
  const padding = Array.from({ length: missing }, (_, index) => unit[index % unit.length]).join('')
  return width < 0 ? padding + text : text + padding
}

function refuseLongText(result: unknown): void {
  if (typeof result === 'string' && result.length > maxTextLength) throw tooLong()
}

function tooLong(): ExpressionError {
  return new ExpressionError(`a text became longer than ${maxTextLength} characters`)
}
