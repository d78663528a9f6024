import { hasBoundedCost } from './bounded-expressions.ts'
import { compileJsonata, type Variables } from './evaluate-jsonata.ts'
import { evaluateInThread, prepareThread } from './evaluation-thread.ts'
import { ExpressionError } from './expression-error.ts'
import { createFairQueue } from './fair-queue.ts'
import { estimateJsonSize } from './json-size.ts'

/** Limit of a value for the worker thread: it is copied in one step. An item is smaller. */
const maxThreadInput = 2_097_152

/** A compiled JSONata expression. */
export type Expression = {
  /**
   * The result as plain JSON values; undefined when there is none. `value` and `variables` (`$name` in the expression) must be
   * JSON values. Rejects with ExpressionError. An evaluation uses less than a second of processor time.
   */
  evaluate(value: unknown, variables?: Variables): Promise<unknown>
}

/**
 * Compiles JSONata as `compileJsonata` describes it. Expressions that only select, compare and convert run in this thread. All
 * others (regular expressions, functions, ranges, sorting) run in a worker thread that can be ended. Throws ExpressionError
 * with the position of a syntax error.
 */
export function compileExpression(text: string): Expression {
  const guarded = compileJsonata(text)
  const owner = {}
  if (hasBoundedCost(guarded.ast)) {
    return {
      evaluate: (value, variables) =>
        oneAtATime(owner, () => guarded.evaluate(withTexts(value), variables)),
    }
  }
  prepareThread()
  return {
    evaluate: async (given, variables) => {
      const value = withTexts(given)
      if (estimateJsonSize(value, maxThreadInput) > maxThreadInput) {
        const data = { most: maxThreadInput }
        throw new ExpressionError({ code: 'EXPRESSION_GIVEN_TOO_MUCH', data })
      }
      return await evaluateInThread(owner, { text, value, variables })
    },
  }
}

/** With an exponent the number is not an id whose digits matter. */
const leastWithExponent = 1e21

/**
 * JSONata rounds whole numbers beyond 2^53, so they are passed as text. Those that JavaScript represents exactly are text too,
 * so that all such ids have the same type.
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

/** Runs evaluations one at a time, because concurrent ones would share processor time. Owners are served in turn. */
function oneAtATime<T>(owner: object, work: () => Promise<T>): Promise<T> {
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
