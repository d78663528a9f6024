import { z } from 'zod'
import type { Secret } from '../../domain/flow-secret.ts'
import { isTimeZone } from '../../domain/time-zone.ts'
import type { Reason } from '../../texts/reason.ts'
import type { FlowContext } from './flow-context.ts'
import { type Finding, resolveReferences } from './secret-references.ts'

/** Encodes a finding as the message of a Zod issue, which must be a text. `findingIn` decodes it. */
export function findingMessage(finding: Finding | Finding['why']): string {
  return JSON.stringify('why' in finding ? finding : { why: finding })
}

/** Decodes a message of `says`; undefined for Zod's own messages. */
export function findingIn(message: string): Finding | undefined {
  return message.startsWith('{"why":') ? (JSON.parse(message) as Finding) : undefined
}

/** Reports a finding for a value. */
export function report(
  context: z.RefinementCtx,
  finding: Finding | Finding['why'],
  path: string[] = [],
): void {
  context.addIssue({ code: 'custom', path, message: findingMessage(finding) })
}

/** A duration as `30s`, or a number of milliseconds. The result is in milliseconds. */
export function duration(min: string, max: string) {
  const why = { code: 'MUST_BE_DURATION', data: { min, max } } as const
  const isWithin = (ms: number | undefined) =>
    ms !== undefined && ms >= Number(parseDuration(min)) && ms <= Number(parseDuration(max))
  const form = z.string().meta({ pattern: durationPattern.source })
  return z
    .union([form, z.number()], findingMessage(why))
    .transform((given, context) => {
      const ms = parseDuration(given)
      if (ms !== undefined && isWithin(ms)) return ms
      const inSeconds = `${given}s`
      const example: Reason = isWithin(parseDuration(inSeconds))
        ? { code: 'WRITE_WORD', data: { word: inSeconds } }
        : { code: 'FOR_EXAMPLE', data: { example: min } }
      const hint: Reason =
        typeof given === 'number' ? { code: 'NUMBER_IS_MS', data: { what: example } } : example
      report(context, { why, hint })
      return z.NEVER
    })
    .describe(`duration from ${min} to ${max}: 500ms, 30s, 10m, 24h, 7d or milliseconds`)
}

export function whole(min: number, max: number) {
  return z
    .int(findingMessage({ code: 'MUST_BE_WHOLE', data: { min, max } }))
    .min(min)
    .max(max)
}

/** The YAML parser rounds numbers beyond 2^53. NaN and infinity are not allowed. */
export const isExactNumber = (given: number) => Math.abs(given) <= Number.MAX_SAFE_INTEGER
export const notExact: Reason = { code: 'NOT_EXACT' }

export function exactNumberSchema() {
  return z.number().superRefine((given, context) => {
    if (!isExactNumber(given)) report(context, notExact)
  })
}

const maxText = 65_536
/** Compiling a longer expression would delay requests of tills. */
const maxExpression = 16_384

export const text = () => z.string().min(1).max(maxText)

/** The name of a flow or a destination. */
export const name = () =>
  z.string().regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, findingMessage({ code: 'MUST_BE_FLOW_NAME' }))

/** A column or field of a record. */
export const column = () =>
  z
    .string()
    .regex(/^(?!__proto__$)[^\p{Cc}]{1,128}$/u, findingMessage({ code: 'MUST_BE_FIELD_NAME' }))

export const columns = () => z.array(column()).min(1).max(64)

/** One name or a list of names. */
export const oneOrMore = () =>
  z
    .union([column(), columns()], findingMessage({ code: 'MUST_BE_FIELD_OR_LIST' }))
    .transform((given) => (typeof given === 'string' ? [given] : given))

/**
 * A text in which `${env:NAME}` and `${file:/path}` are replaced. `check` gets the text of the file and the result. Its
 * findings must not contain the result.
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

/** A JSONata expression. Its syntax is checked after the file's structure. */
export const jsonata = () => text().max(maxExpression).describe('JSONata expression')

/** An IANA time zone name. */
export const timeZone = () =>
  z.string().refine(isTimeZone, findingMessage({ code: 'MUST_BE_TIME_ZONE' }))

const units: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}

/** A duration in a flow file: `500ms`, `30s`, `10m`, `24h`, `7d`; a number without unit is milliseconds. */
const durationPattern = /^\d{1,9}(\.\d{1,3})?(ms|s|m|h|d)$/

/** Milliseconds, rounded; undefined when the text is not a duration. */
function parseDuration(given: string | number): number | undefined {
  if (typeof given === 'number') return Number.isFinite(given) ? Math.round(given) : undefined
  if (!durationPattern.test(given)) return undefined
  const unit = units[given.replace(/^[\d.]+/, '')]
  return unit && Math.round(Number.parseFloat(given) * unit)
}
