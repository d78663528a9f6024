import { evaluateApart, prepareThread } from './apart.ts'
import { ExpressionError } from './expression-error.ts'
import { createFairQueue } from './fair-queue.ts'
import { compileGuarded, type Variables } from './guarded.ts'
import { isTame } from './tame.ts'
import { weightOf } from './weight.ts'

/** Values are copied for the thread, in one go. An item has less. */
const maxWeightApart = 2_097_152

/** A compiled JSONata expression. */
export type Expression = {
  /**
   * The result as plain JSON values, or undefined when there is none. `value` and `variables` (`$name` in the expression)
   * hold JSON values only. Rejects with ExpressionError, within a second whatever the expression does.
   */
  evaluate(value: unknown, variables?: Variables): Promise<unknown>
}

/**
 * Compiles JSONata as `compileGuarded` describes it. Expressions that only pick, compare and convert run inside the
 * process; all others (regular expressions, functions, ranges, sorting) run in a thread that can be ended.
 * Throws ExpressionError with the position of a syntax error.
 */
export function compileExpression(text: string): Expression {
  const guarded = compileGuarded(text)
  const owner = {}
  if (isTame(guarded.ast)) {
    return {
      evaluate: (value, variables) =>
        inTurn(owner, () => guarded.evaluate(withTexts(value), variables)),
    }
  }
  prepareThread()
  return {
    evaluate: async (given, variables) => {
      const value = withTexts(given)
      if (weightOf(value, maxWeightApart) > maxWeightApart) {
        throw new ExpressionError(
          `the expression would be given more than ${maxWeightApart} characters; one without functions may be`,
        )
      }
      return await evaluateApart(owner, { text, value, variables })
    },
  }
}

/** Written with an exponent, it is no id whose digits count. */
const leastWithExponent = 1e21

/**
 * JSONata knows no whole numbers beyond 2^53, and would round them: to it they are texts. So are those that JavaScript happens
 * to hold exactly, lest every other id be of another type.
 */
function withTexts(value: unknown): unknown {
  if (typeof value === 'bigint') return String(value)
  if (typeof value === 'number') {
    const isBeyond = Number.isInteger(value) && !Number.isSafeInteger(value)
    return isBeyond && Math.abs(value) < leastWithExponent ? String(value) : value
  }
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    const entries = value.map(withTexts)
    return entries.some((entry, index) => entry !== value[index]) ? entries : value
  }
  let changed: Record<string, unknown> | undefined
  for (const [name, field] of Object.entries(value)) {
    const text = withTexts(field)
    if (text === field) continue
    changed ??= { ...value }
    changed[name] = text
  }
  return changed ?? value
}

const waiting = createFairQueue<() => Promise<void>>()
let isWorking = false

/** One after another, since side by side they would spend each other's 250 ms; expressions take turns. */
function inTurn<T>(owner: object, work: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    waiting.add(owner, () => work().then(resolve, reject))
    if (!isWorking) void workAll()
  })
}

async function workAll(): Promise<void> {
  isWorking = true
  for (let work = waiting.take(); work; work = waiting.take()) await work()
  isWorking = false
}
