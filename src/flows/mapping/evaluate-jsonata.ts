import { getHeapStatistics } from 'node:v8'
import jsonata from 'jsonata'
import { yieldToEventLoop } from '../../jobs/yield-to-event-loop.ts'
import { ExpressionError, expressionTooSlow, toExpressionError } from './expression-error.ts'
import { threadCpuMs } from './thread-cpu.ts'

/** Limits of call depth and list entries: options of jsonata since 2.2. Its option `timeout` also counts time of other work. */
const guards = { stack: 200, sequence: 100_000 }
/**
 * Limits of one evaluation. `cpuMs`: processor time; on a busy machine it may last much longer. `heapBytes`: the growth of the
 * heap, only for an evaluation with a thread of its own.
 */
export type EvaluationLimits = { cpuMs: number; heapBytes?: number }
const defaultLimits: EvaluationLimits = { cpuMs: 250 }
/** Limit of intermediate texts: doubling a text forty times would end the process. */
const maxTextLength = 1_000_000
const exitHook = Symbol.for('jsonata.__evaluate_exit')

/** Variables of an expression: JSON values by name. */
export type Variables = Readonly<Record<string, unknown>>

export type CompiledJsonata = {
  /**
   * The result as plain JSON values; undefined when there is none. `variables` are `$name` in the expression. Rejects with
   * ExpressionError.
   */
  evaluate(value: unknown, variables?: Variables): Promise<unknown>
  ast: unknown
}

/**
 * JSONata with limits of processor time, depth and size, and two changes. `$eval` is refused. `$exists` is false for null,
 * because a database has null where a JSON document lacks the field.
 *
 * A thread evaluates one expression at a time. Throws ExpressionError for a syntax error.
 */
export function compileJsonata(text: string, limits = defaultLimits): CompiledJsonata {
  const expression = parse(text)
  expression.registerFunction('eval', refuseEval)
  expression.registerFunction('exists', exists, '<x:b>')
  expression.registerFunction('pad', pad, '<s-ns?:s>')
  // jsonata looks up this symbol like any name; only its type requires a string. It awaits the function at each step, where
  // the event loop can run other work.
  let limit = createLimit(limits)
  const atEachStep = (_node: unknown, _input: unknown, _frame: unknown, result: unknown) => {
    refuseLongText(result)
    limit.check()
    const pause = yieldToEventLoop()
    return pause && limit.exclude(pause)
  }
  expression.assign(exitHook as unknown as string, atEachStep)
  return {
    evaluate: async (value, variables) => {
      limit = createLimit(limits)
      try {
        return plainCopy(await expression.evaluate(value, variables && { ...variables }))
      } catch (thrown) {
        throw toExpressionError(thrown)
      }
    },
    ast: expression.ast(),
  }
}

/** Ends an evaluation that exceeds its limits. Processor time of other work during its pauses does not count. */
function createLimit({ cpuMs, heapBytes }: EvaluationLimits) {
  const beganAt = performance.now()
  const heapAtStart = heapBytes ? getHeapStatistics().used_heap_size : 0
  let beganAtCpuMs = threadCpuMs()
  return {
    check() {
      if (heapBytes && getHeapStatistics().used_heap_size - heapAtStart > heapBytes) {
        throw new ExpressionError({ code: 'EXPRESSION_OUT_OF_MEMORY' })
      }
      // Elapsed time is cheaper to read, and processor time cannot exceed it.
      if (performance.now() - beganAt < cpuMs) return
      if (threadCpuMs() - beganAtCpuMs >= cpuMs) throw expressionTooSlow(cpuMs)
    },
    async exclude(pause: Promise<void>) {
      const pausedAtMs = threadCpuMs()
      await pause
      beganAtCpuMs += threadCpuMs() - pausedAtMs
    },
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
  throw new ExpressionError({ code: 'EXPRESSION_EVAL' })
}

function exists(value: unknown): boolean {
  return value !== undefined && value !== null
}

/** Like jsonata's `$pad` with a length limit: the original builds the padding first, whatever its length. */
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
  return new ExpressionError({ code: 'EXPRESSION_TEXT_TOO_LONG', data: { most: maxTextLength } })
}

const maxDepth = 64
/** Characters of all texts and names, plus eight per value. */
const maxSize = 1_048_576
const perValue = 8

/**
 * The result of an expression as plain JSON values: jsonata's objects have no prototype, and its lists have extra properties.
 * Values that JSON cannot represent are refused. An undefined result stays undefined; undefined fields are dropped.
 */
function plainCopy(value: unknown): unknown {
  let size = 0
  const count = (more: number) => {
    size += more
    if (size > maxSize) {
      throw new ExpressionError({ code: 'RESULT_TOO_LARGE', data: { most: maxSize } })
    }
  }
  const copy = (part: unknown, depth: number): unknown => {
    if (depth > maxDepth) {
      throw new ExpressionError({ code: 'RESULT_TOO_DEEP', data: { most: maxDepth } })
    }
    count(perValue)
    switch (typeof part) {
      case 'string':
        count(part.length)
        return part
      case 'number':
        if (Number.isFinite(part)) return part
        throw new ExpressionError({ code: 'RESULT_NO_NUMBER', data: { value: String(part) } })
      case 'boolean':
      case 'undefined':
        return part
      case 'object':
        break
      default:
        throw new ExpressionError({ code: 'RESULT_KIND', data: { type: typeof part } })
    }
    if (part === null) return null
    if (Array.isArray(part)) return part.map((entry) => copy(entry, depth + 1) ?? null)
    if ('_jsonata_lambda' in part || '_jsonata_function' in part) {
      throw new ExpressionError({ code: 'RESULT_FUNCTION' })
    }
    const fields: Record<string, unknown> = {}
    for (const [name, field] of Object.entries(part)) {
      if (name === '__proto__') throw new ExpressionError({ code: 'RESULT_NAME_RESERVED' })
      count(name.length)
      const copied = copy(field, depth + 1)
      if (copied !== undefined) fields[name] = copied
    }
    return fields
  }
  return copy(value, 0)
}
