import type { RouteOptions } from 'fastify'
import { z } from 'zod'
import { AppError, type ErrorCode, errorCatalogue } from '../errors/app-error.ts'
import type { AccessClass } from './access-classes.ts'
import {
  answerFor,
  ErrorBody,
  type ErrorStyle,
  PlainErrorBody,
  ValidationErrorBody,
} from './error-body.ts'

type Response = { description: string; content: Record<string, { schema: z.ZodType }> }

/** VALIDATION_ERROR too: malformed text in the query is refused on all routes. */
const always: readonly ErrorCode[] = [
  'BAD_REQUEST',
  'VALIDATION_ERROR',
  'INTERNAL_ERROR',
  'SERVICE_UNAVAILABLE',
]

/** A page instead of the error body, for a person in a browser. */
const ErrorPage = z.string().describe('The same, for a person in a browser')

/** The flow control API limits failed tries only. */
function codesOfAccess(access: AccessClass, style: ErrorStyle): readonly ErrorCode[] {
  if (access === 'public') return style === 'coded' ? ['RATE_LIMITED'] : []
  return access === 'client'
    ? ['UNAUTHORIZED', 'FORBIDDEN', 'NOT_FOUND', 'RATE_LIMITED']
    : ['UNAUTHORIZED', 'FORBIDDEN', 'RATE_LIMITED']
}

/** The error answers of a route by status: from its access class, its schemas and the codes in its `config.errors`. */
export function errorResponses(route: RouteOptions, style: ErrorStyle): Record<number, Response> {
  const byStatus = new Map<number, ErrorCode[]>()
  for (const code of codesOf(route, style)) {
    const status = statusOf(code, style)
    byStatus.set(status, [...(byStatus.get(status) ?? []), code])
  }
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      status,
      {
        description: describe(codes, style),
        content: {
          'application/json': { schema: schemaOf(codes, style) },
          ...(route.config?.errorPage && { 'text/html': { schema: ErrorPage } }),
        },
      },
    ]),
  )
}

/** The service's answer for each code of a route, by status. */
export function exampleErrors(
  route: RouteOptions,
  style: ErrorStyle,
): Record<string, Record<string, unknown>> {
  const byStatus: Record<string, Record<string, unknown>> = {}
  const own = Object.keys((route.schema?.response ?? {}) as object)
  for (const code of codesOf(route, style)) {
    // The route has its own description of this status.
    if (own.includes(String(statusOf(code, style)))) continue
    const failure = new AppError(
      code,
      code === 'VALIDATION_ERROR' ? { details: exampleDetails } : {},
    )
    const { status, body } = answerFor(failure, {
      style,
      requestId: 'bb56a2f1-6aae-46ac-982e-9dcd3581d08e',
      money: route.config?.money,
    })
    byStatus[status] = { ...byStatus[status], [code]: body }
  }
  return byStatus
}

const exampleDetails = [{ path: 'client', message: 'must not begin or end with a space' }]

function codesOf(route: RouteOptions, style: ErrorStyle): Set<ErrorCode> {
  const { access = 'public', errors = [] } = route.config ?? {}
  const codes = new Set([...always, ...codesOfAccess(access, style)])
  if (route.schema?.params) codes.add('NOT_FOUND')
  if (route.config?.signsIn) codes.add('UNKNOWN_HOST')
  // A body is read, and refused, also where none is expected.
  if (![route.method].flat().includes('GET')) {
    codes.add('REQUEST_TIMEOUT').add('PAYLOAD_TOO_LARGE').add('UNSUPPORTED_MEDIA_TYPE')
    if (!route.config?.mayComeLate) codes.add('CALLER_GONE')
  }
  for (const code of errors) codes.add(code)
  return codes
}

function statusOf(code: ErrorCode, style: ErrorStyle): number {
  const { status } = errorCatalogue[code]
  return style === 'plain' && status === 422 ? 400 : status
}

function describe(codes: readonly ErrorCode[], style: ErrorStyle): string {
  return codes
    .map((code) => (style === 'coded' ? `\`${code}\`: ` : '') + errorCatalogue[code].text)
    .join('\n\n')
}

function schemaOf(codes: readonly ErrorCode[], style: ErrorStyle): z.ZodType {
  if (style === 'plain') return PlainErrorBody
  return codes.length === 1 && codes[0] === 'VALIDATION_ERROR' ? ValidationErrorBody : ErrorBody
}

/** The closed list of codes, as a table for the description of the API. */
export function catalogueTable(): string {
  const rows = Object.entries(errorCatalogue).map(
    ([code, { status, text, action }]) => `| \`${code}\` | ${status} | ${text} | ${action} |`,
  )
  return ['| Code | Status | Meaning | What to do |', '|---|---|---|---|', ...rows].join('\n')
}
