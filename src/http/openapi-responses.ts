import type { RouteOptions } from 'fastify'
import { z } from 'zod'
import { AppError, type ErrorCode, errorCatalogue, retryMeanings } from '../errors/app-error.ts'
import type { Audience } from './audiences.ts'
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
function codesOfAudience(audience: Audience, style: ErrorStyle): readonly ErrorCode[] {
  if (audience === 'public') return style === 'coded' ? ['RATE_LIMITED'] : []
  return audience === 'client'
    ? ['UNAUTHORIZED', 'FORBIDDEN', 'NOT_FOUND', 'RATE_LIMITED']
    : ['UNAUTHORIZED', 'FORBIDDEN', 'RATE_LIMITED']
}

/** The error answers of a route by status: from its audience, its schemas and the codes in its `config.errors`. */
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
  for (const failure of failuresOf(route, style)) {
    const { code } = failure
    // The route has its own description of this status.
    if (own.includes(String(statusOf(code, style)))) continue
    const { status, body } = answerFor(failure, {
      style,
      requestId: 'bb56a2f1-6aae-46ac-982e-9dcd3581d08e',
      money: route.config?.money,
    })
    const before = byStatus[status] ?? {}
    byStatus[status] = { ...before, [nameOf(code, before)]: body }
  }
  return byStatus
}

/** A code that a route answers in several ways has a number from the second on. */
function nameOf(code: ErrorCode, before: Record<string, unknown>): string {
  const count = Object.keys(before).filter((name) => name.split(' ')[0] === code).length
  return count === 0 ? code : `${code} ${count + 1}`
}

/** The errors of a route: those that it names itself, and one for each other code. */
function failuresOf(route: RouteOptions, style: ErrorStyle): AppError[] {
  const { errors = [] } = route.config ?? {}
  const own = errors.filter((error) => error instanceof AppError)
  const named = new Set(own.map(({ code }) => code))
  const codes = commonCodes(route, style)
  for (const error of errors) {
    if (!(error instanceof AppError) && !named.has(error)) codes.add(error)
  }
  return [...[...codes].map(exampleOf), ...own]
}

function exampleOf(code: ErrorCode): AppError {
  return new AppError(code, code === 'VALIDATION_ERROR' ? { details: exampleDetails } : {})
}

const exampleDetails = [{ path: 'client', message: 'must not begin or end with a space' }]

function codesOf(route: RouteOptions, style: ErrorStyle): Set<ErrorCode> {
  const codes = commonCodes(route, style)
  for (const error of route.config?.errors ?? []) {
    codes.add(error instanceof AppError ? error.code : error)
  }
  return codes
}

/** The codes of every route of this audience and kind. */
function commonCodes(route: RouteOptions, style: ErrorStyle): Set<ErrorCode> {
  const { audience = 'public' } = route.config ?? {}
  const codes = new Set([...always, ...codesOfAudience(audience, style)])
  if (route.schema?.params) codes.add('NOT_FOUND')
  if (route.config?.signsIn) codes.add('UNKNOWN_HOST')
  // A body is read, and refused, also where none is expected.
  if (![route.method].flat().includes('GET')) {
    codes.add('REQUEST_TIMEOUT').add('PAYLOAD_TOO_LARGE').add('UNSUPPORTED_MEDIA_TYPE')
    if (!route.config?.mayComeLate) codes.add('CALLER_GONE')
  }
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

/** What `retry` says, and the closed list of codes as a table, for the description of the API. */
export function catalogueTable(): string {
  const rows = Object.entries(errorCatalogue).map(
    ([code, { status, retry, text, action }]) =>
      `| \`${code}\` | ${status} | \`${retry}\` | ${text} | ${action} |`,
  )
  const head = ['| Code | Status | `retry` | Meaning | What to do |', '|---|---|---|---|---|']
  const meanings = Object.entries(retryMeanings).map(
    ([retry, meaning]) => `- \`retry: ${retry}\`: ${meaning}`,
  )
  return [...meanings, '', ...head, ...rows].join('\n')
}
