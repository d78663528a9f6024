import type { z } from 'zod'
import { detailOf, type ErrorDetail } from '../errors/app-error.ts'
import { type FieldReason, type FieldReasonCode, fieldReasonIn } from '../errors/field-reasons.ts'

const maxPathLength = 200
/** An attacker's body of many thousand unknown keys must not cause an answer of the same size. */
const maxDetails = 50

/** The details of an answer for the issues that Zod found: at most 50. */
export function detailsOf(
  issues: readonly z.core.$ZodIssue[],
  part: string,
  data: unknown,
): ErrorDetail[] {
  return issues.flatMap((issue) => detailsOfIssue(issue, part, data)).slice(0, maxDetails)
}

function detailsOfIssue(issue: z.core.$ZodIssue, part: string, data: unknown): ErrorDetail[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) =>
      detailOf(dotted([...issue.path, key], part), { code: 'FIELD_UNKNOWN' }),
    )
  }
  const why = fieldReasonIn(issue.message) ?? reasonOf(issue, data)
  return [detailOf(dotted(issue.path, part), why)]
}

const reasonOfType: Readonly<Record<string, FieldReasonCode>> = {
  string: 'NOT_A_TEXT',
  number: 'NOT_A_NUMBER',
  int: 'NOT_WHOLE',
  boolean: 'NOT_YES_OR_NO',
  array: 'NOT_A_LIST',
  object: 'NOT_AN_OBJECT',
  record: 'NOT_AN_OBJECT',
}

const reasonOfFormat: Readonly<Record<string, FieldReasonCode>> = {
  date: 'NOT_A_DAY',
  datetime: 'NOT_A_TIME',
  url: 'NOT_AN_ADDRESS',
  uuid: 'NOT_A_UUID',
}

/** The reason of one of Zod's own messages. */
function reasonOf(issue: z.core.$ZodIssue, data: unknown): FieldReason {
  const isMissing = valueAt(data, issue.path) === undefined
  if (isMissing && ['invalid_type', 'invalid_value', 'invalid_union'].includes(issue.code)) {
    return { code: 'FIELD_MISSING' }
  }
  switch (issue.code) {
    case 'invalid_type':
      return { code: reasonOfType[issue.expected] ?? 'VALUE_WRONG' }
    case 'invalid_format':
      return { code: reasonOfFormat[issue.format] ?? 'FORM_WRONG' }
    case 'invalid_value':
      return { code: 'NOT_ONE_OF', data: { known: issue.values.map(String).join(', ') } }
    case 'not_multiple_of':
      return { code: 'NUMBER_NOT_MULTIPLE', data: { of: issue.divisor } }
    case 'too_small': {
      const least = { least: Number(issue.minimum) }
      if (issue.origin === 'array') return { code: 'LIST_TOO_SHORT', data: least }
      if (issue.origin !== 'string') {
        return { code: issue.inclusive ? 'NUMBER_TOO_SMALL' : 'NUMBER_NOT_ABOVE', data: least }
      }
      return least.least === 1 ? { code: 'TEXT_EMPTY' } : { code: 'TEXT_TOO_SHORT', data: least }
    }
    case 'too_big': {
      const most = { most: Number(issue.maximum) }
      if (issue.origin === 'array') return { code: 'LIST_TOO_LONG', data: most }
      if (issue.origin === 'string') return { code: 'TEXT_TOO_LONG', data: most }
      return { code: issue.inclusive ? 'NUMBER_TOO_BIG' : 'NUMBER_NOT_BELOW', data: most }
    }
    default:
      return { code: 'VALUE_WRONG' }
  }
}

function valueAt(data: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (found, key) => (found as Record<PropertyKey, unknown> | null | undefined)?.[key],
    data,
  )
}

function dotted(path: readonly PropertyKey[], part: string): string {
  return path.length === 0 ? part : path.map(String).join('.').slice(0, maxPathLength)
}
