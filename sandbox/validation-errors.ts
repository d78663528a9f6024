import { z } from 'zod'
import { ApiError } from './errors.ts'

export type Fields = Record<string, unknown>

const messages: Record<string, string> = {
  required_properties: 'Some required properties are missing.',
  unsupported_properties: 'Some properties are not supported.',
  property_type: 'Some properties have the wrong type.',
  property_value: 'Some properties have an invalid value.',
  minimum_items: 'The list has fewer items than allowed.',
  maximum_items: 'The list has more items than allowed.',
}
const types: Record<string, string> = {
  object: 'an object',
  array: 'an array',
  string: 'a string',
  int: 'an integer',
  number: 'an integer',
}

export function isRecord(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A text that `accepts` takes; another text is an invalid value. */
export function text(accepts: (value: string) => boolean = () => true) {
  return z.string().refine(accepts, 'is not valid')
}

/** A list of exactly one element: payments, terminals, refunded transactions. */
export function single<T extends z.ZodType>(element: T) {
  const isList = { when: ({ value }: { value: unknown }) => Array.isArray(value) }
  return z
    .array(element)
    .refine((list) => list.length > 0, {
      ...isList,
      params: { code: 'minimum_items' },
      error: 'must have at least 1 item',
    })
    .refine((list) => list.length < 2, {
      ...isList,
      params: { code: 'maximum_items' },
      error: 'must have at most 1 item',
    })
}

/**
 * Reads a body or query. Throws one 400 with an entry for each code (provider facts 0.5 and 2.1): of an object first
 * the unsupported and missing properties, then its values, then those of its members.
 */
export function readBody<T>(schema: z.ZodType<T>, body: unknown): T {
  const { data, error } = schema.safeParse(body, { reportInput: true })
  if (error === undefined) return data
  const found = error.issues
    .flatMap((issue) => problemsOf(issue))
    .toSorted((a, b) => a.depth - b.depth || rank(a.code) - rank(b.code))
  const byCode = Map.groupBy(found, ({ code }) => code)
  throw new ApiError(
    400,
    [...byCode].map(([code, problems]) => ({
      code,
      message: messages[code] ?? code,
      details: problems.map(({ detail }) => detail),
    })),
  )
}

function rank(code: string): number {
  const index = ['unsupported_properties', 'required_properties'].indexOf(code)
  return index === -1 ? 2 : index
}

function problemsOf(issue: z.core.$ZodIssue): { code: string; detail: string; depth: number }[] {
  const path = z.core.toDotPath(issue.path)
  const problem = (code: string, rule: string) => [
    { code, detail: `${path || 'body'} ${rule}`, depth: issue.path.length - 1 },
  ]
  switch (issue.code) {
    case 'unrecognized_keys':
      return issue.keys.map((key) => ({
        code: 'unsupported_properties',
        detail: `${path === '' ? key : `${path}.${key}`} is not supported`,
        depth: issue.path.length,
      }))
    case 'invalid_type':
      if (issue.input === undefined && path !== '')
        return problem('required_properties', 'is required')
      return problem('property_type', `must be ${types[issue.expected]}`)
    case 'custom':
      return problem(String(issue.params?.code ?? 'property_value'), issue.message)
    default:
      return problem('property_value', issue.message)
  }
}
