import { z } from 'zod'
import type { Secret } from '../../domain/secret.ts'
import { isTimeZone } from '../../domain/time-zone.ts'
import type { FlowContext } from './context.ts'
import { durationPattern, meantDuration, parseDuration } from './duration.ts'
import { type Finding, resolveReferences } from './references.ts'

/** Reports a finding with its hint; `params.hint` is what loading shows beside the message. */
export function report(
  context: z.RefinementCtx,
  { message, hint }: Finding,
  path: string[] = [],
): void {
  const params = hint === undefined ? {} : { params: { hint } }
  context.addIssue({ code: 'custom', path, message, ...params })
}

/** `30s`, or milliseconds as a number; the result is milliseconds. */
export function duration(min: string, max: string) {
  const expected = `must be a duration from ${min} to ${max}`
  const isWithin = (ms: number | undefined) =>
    ms !== undefined && ms >= Number(parseDuration(min)) && ms <= Number(parseDuration(max))
  const form = z.string().meta({ pattern: durationPattern.source })
  return z
    .union([form, z.number()], expected)
    .transform((given, context) => {
      const ms = parseDuration(given)
      if (ms !== undefined && isWithin(ms)) return ms
      const meant = meantDuration(given)
      const isMeant = meant !== undefined && isWithin(parseDuration(meant))
      const example = isMeant ? `write ${meant}` : `for example ${min}`
      const hint = typeof given === 'number' ? `a number is milliseconds; ${example}` : example
      report(context, { message: expected, hint })
      return z.NEVER
    })
    .describe(`duration from ${min} to ${max}: 500ms, 30s, 10m, 24h, 7d or milliseconds`)
}

export function whole(min: number, max: number) {
  return z.int(`must be a whole number from ${min} to ${max}`).min(min).max(max)
}

/** Beyond 2^53 the reader of YAML has kept the nearest number that it can hold; NaN and infinity are none. */
export const isExactNumber = (given: number) => Math.abs(given) <= Number.MAX_SAFE_INTEGER
export const notExact: Finding = {
  message: 'is beyond the numbers that are kept exactly',
  hint: 'write it as a text, in quotes',
}

export function exactNumber() {
  return z.number().superRefine((given, context) => {
    if (!isExactNumber(given)) report(context, notExact)
  })
}

const maxText = 65_536
/** Compiling a longer one would hold up the tills. */
const maxExpression = 16_384

export const text = () => z.string().min(1).max(maxText)

/** The name of a flow or a destination. */
export const name = () =>
  z
    .string()
    .regex(
      /^[a-z0-9][a-z0-9_-]{0,63}$/,
      'must be 1 to 64 of a-z 0-9 _ - and begin with a letter or digit',
    )

/** A column or field of a record. */
export const column = () =>
  z
    .string()
    .regex(/^(?!__proto__$)[^\p{Cc}]{1,128}$/u, 'must be the name of a field, 1 to 128 characters')

export const columns = () => z.array(column()).min(1).max(64)

/** One name or a list of names. */
export const oneOrMore = () =>
  z
    .union([column(), columns()], 'must be the name of a field or a list of names')
    .transform((given) => (typeof given === 'string' ? [given] : given))

/**
 * A text in which `${env:NAME}` and `${file:/path}` are replaced. `check` looks at the text of the file and at the
 * result; its findings must not quote the result.
 */
export function secretText(
  context: FlowContext,
  check: (template: string, value: string) => Finding | undefined = () => undefined,
  options: { takesLines?: boolean } = {},
) {
  return text().transform((template, issues): Secret => {
    const resolved = resolveReferences(template, context, options)
    if ('findings' in resolved) {
      for (const finding of resolved.findings) report(issues, finding)
      return z.NEVER
    }
    const finding = check(template, resolved.secret.reveal())
    if (!finding) return resolved.secret
    report(issues, finding)
    return z.NEVER
  })
}

/** A JSONata expression; its syntax is checked when the whole file is known to be well formed. */
export const jsonata = () => text().max(maxExpression).describe('JSONata expression')

/** A name of the IANA database of time zones. */
export const timeZone = () =>
  z.string().refine(isTimeZone, 'must be a time zone, such as America/Argentina/Buenos_Aires')
