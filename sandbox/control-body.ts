import { z } from 'zod'
import { parseAmount } from './amounts.ts'

/** An invalid call of the control surface: `{error, code}` with this status. */
export class ControlError extends Error {
  readonly status: number
  readonly code: string

  constructor(status: 400 | 404 | 409, message: string) {
    super(message)
    this.name = 'ControlError'
    this.status = status
    this.code = { 400: 'BAD_REQUEST', 404: 'NOT_FOUND', 409: 'CONFLICT' }[status]
  }
}

export function badCall(message: string): ControlError {
  return new ControlError(400, message)
}

/**
 * Reads the body of a call of the control surface. Throws 400 with its first error: an unknown field, or a field and
 * what it must be. An error of the whole body is the schema's own sentence.
 */
export function readCall<T>(schema: z.ZodType<T>, body: unknown): T {
  const { data, error } = schema.safeParse(body)
  if (error === undefined) return data
  const [first] = error.issues
  const unknown = error.issues.find(({ code }) => code === 'unrecognized_keys')
  if (unknown?.code === 'unrecognized_keys') {
    throw badCall(
      `${z.core.toDotPath([...unknown.path, ...unknown.keys.slice(0, 1)])} is not known`,
    )
  }
  throw badCall(`${z.core.toDotPath(first?.path ?? [])} ${first?.message}`.trim())
}

/** A field of any kind that may be absent. */
export const anything = z.unknown().optional()

/** A value that `read` accepts; `rule` says what it must be. */
export function field<T>(read: (value: unknown) => T | undefined, rule: string): z.ZodType<T> {
  return anything.transform((value, context) => {
    const found = read(value)
    if (found !== undefined) return found
    context.addIssue({ code: 'custom', message: rule })
    return z.NEVER
  })
}

export function oneOf<const K extends string>(values: readonly K[]) {
  return z.enum(values, `must be one of ${values.join(', ')}`)
}

export function numberIn(low: number, high: number, unit = '') {
  const rule = `must be a number${unit} from ${low} to ${high}`
  return z.number(rule).min(low, rule).max(high, rule)
}

export const positiveNumber = z
  .int('must be a positive whole number')
  .positive('must be a positive whole number')

/** An amount of money as text or number, in cents. */
export const amount = field(
  (value) => parseAmount(String(value)),
  'must be an amount such as "10.00"',
)

/** A date as milliseconds; undefined when it is none. */
export function dateMs(value: unknown): number | undefined {
  const ms = Date.parse(String(value))
  return Number.isNaN(ms) ? undefined : ms
}

/** Members that replace those of an answer; anything but an object is ignored. */
export const odd = z.record(z.string(), z.unknown()).optional().catch(undefined)
