import type { z } from 'zod'
import type { Reason, ReasonValue } from '../../domain/flow-reasons.ts'
import { findingsOf } from '../definition/schema-findings.ts'
import { asObject, kindOfMade } from './result.ts'

const maxIssues = 5
const maxValueLength = 60

/** Checks a mapped body against the destination's schema. `why` shows the expected and the actual value of each wrong field. */
export function checkBody<T>(
  schema: z.ZodType<T>,
  body: unknown,
): { ok: true; value: T } | { ok: false; why: Reason } {
  const result = schema.safeParse(body)
  if (result.success) return { ok: true, value: result.data }
  const { issues } = result.error
  const problems = issues.slice(0, maxIssues).map((issue): Reason => {
    const field = issue.path.map(String).join('.') || ({ code: 'THE_BODY' } as const)
    const given = valueAt(body, issue.path)
    const found = given === undefined ? undefined : shown(given)
    return { code: 'BODY_FIELD_MISFIT', data: { field, what: reasonOf(issue, body), found } }
  })
  if (issues.length > maxIssues) {
    problems.push({ code: 'AND_MORE', data: { count: issues.length - maxIssues } })
  }
  return { ok: false, why: { code: 'BODY_MISFIT', data: { problems } } }
}

function reasonOf(issue: z.core.$ZodIssue, body: unknown): Reason {
  if (issue.code === 'unrecognized_keys') {
    return { code: 'UNKNOWN_FIELDS', data: { fields: issue.keys.slice(0, 10).join(', ') } }
  }
  return findingsOf(issue, body, [])[0]?.why ?? { code: 'NOT_VALID', data: { said: issue.message } }
}

function valueAt(body: unknown, path: readonly PropertyKey[]): unknown {
  let value: unknown = body
  for (const step of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined
    value = (value as Record<PropertyKey, unknown>)[step]
  }
  return value
}

function shown(value: unknown): ReasonValue {
  if (typeof value === 'object' || value === undefined) {
    const keys = Object.keys(asObject(value) ?? {})
    if (keys.length === 0) return kindOfMade(value)
    const names = keys.slice(0, 10).join(', ').slice(0, 200)
    return { code: 'OBJECT_WITH', data: { names } }
  }
  const text = JSON.stringify(value)
  return text.length > maxValueLength ? `${text.slice(0, maxValueLength)}…` : text
}
