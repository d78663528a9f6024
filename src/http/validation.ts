import type { FastifySchemaCompiler } from 'fastify'
import type { z } from 'zod'
import { AppError, type ErrorDetail } from '../errors/app-error.ts'

/** An attacker's body of many thousand unknown keys must not become an answer of the same size. */
const maxDetails = 50
const maxPathLength = 200

/** What stands in `path` when the whole part is wrong, for example a missing body. */
const partNames: Readonly<Record<string, string>> = { querystring: 'query' }

/** Zod as Fastify's validator; a refusal is the 422 with `details`, whose paths are dotted: `pos.0.name`. */
export const validatorCompiler: FastifySchemaCompiler<z.ZodType> = ({
  schema,
  httpPart = 'body',
}) => {
  const part = partNames[httpPart] ?? httpPart
  return (data: unknown) => {
    const result = schema.safeParse(data)
    if (result.success) return { value: result.data }
    const details = result.error.issues.flatMap((issue) => detailsOf(issue, part))
    return { error: new AppError('VALIDATION_ERROR', { details: details.slice(0, maxDetails) }) }
  }
}

function detailsOf(issue: z.core.$ZodIssue, part: string): ErrorDetail[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({
      path: dotted([...issue.path, key], part),
      message: 'is not a known field',
    }))
  }
  return [{ path: dotted(issue.path, part), message: issue.message }]
}

function dotted(path: readonly PropertyKey[], part: string): string {
  return path.length === 0 ? part : path.map(String).join('.').slice(0, maxPathLength)
}
