import type { z } from 'zod'
import type { Reason } from '../../domain/flow-reasons.ts'
import { kindOfValue } from './result.ts'

const maxIssues = 5
const maxValueLength = 60

/**
 * Checks what a mapping made against what the destination takes. `why` shows both sides, field by field: what is
 * expected, and what came.
 */
export function checkBody<T>(
  schema: z.ZodType<T>,
  body: unknown,
): { ok: true; value: T } | { ok: false; why: Reason } {
  const result = schema.safeParse(body)
  if (result.success) return { ok: true, value: result.data }
  const { issues } = result.error
  const lines = issues.slice(0, maxIssues).map((issue) => {
    const path = issue.path.map(String)
    return `${path.join('.') || 'the body'}: ${issue.message}, got ${shown(valueAt(body, issue.path))}`
  })
  if (issues.length > maxIssues) lines.push(`and ${issues.length - maxIssues} more`)
  return { ok: false, why: { code: 'MAPPING_MISFIT', data: { said: lines.join('; ') } } }
}

function valueAt(body: unknown, path: readonly PropertyKey[]): unknown {
  let value: unknown = body
  for (const step of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined
    value = (value as Record<PropertyKey, unknown>)[step]
  }
  return value
}

function shown(value: unknown): string {
  if (typeof value === 'object' || value === undefined) {
    const keys = typeof value === 'object' && value !== null ? Object.keys(value) : []
    const names = keys.length === 0 ? '' : ` (${keys.slice(0, 10).join(', ')})`
    return `${kindOfValue(value)}${Array.isArray(value) ? '' : names}`.slice(0, 200)
  }
  const text = JSON.stringify(value)
  return text.length > maxValueLength ? `${text.slice(0, maxValueLength)}…` : text
}
