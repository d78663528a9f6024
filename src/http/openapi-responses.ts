import type { RouteOptions } from 'fastify'
import type { z } from 'zod'
import { type ErrorCode, errorCatalogue } from '../errors.ts'
import type { AccessClass } from './access.ts'
import { ErrorBody, type ErrorStyle, PlainErrorBody, ValidationErrorBody } from './error-body.ts'

type Response = { description: string; content: { 'application/json': { schema: z.ZodType } } }

const always: readonly ErrorCode[] = ['BAD_REQUEST', 'INTERNAL_ERROR', 'SERVICE_UNAVAILABLE']

const byAccess: Readonly<Record<AccessClass, readonly ErrorCode[]>> = {
  public: ['RATE_LIMITED'],
  client: ['UNAUTHORIZED', 'FORBIDDEN', 'NOT_FOUND', 'VALIDATION_ERROR', 'RATE_LIMITED'],
  admin: ['UNAUTHORIZED', 'FORBIDDEN', 'RATE_LIMITED'],
}

/** The flow control API has a token but no clients; it limits failed tries only. */
const byAccessPlain: Readonly<Record<AccessClass, readonly ErrorCode[]>> = {
  public: [],
  client: [],
  admin: ['UNAUTHORIZED', 'FORBIDDEN', 'RATE_LIMITED'],
}

/**
 * The error answers of a route by status, from its access class, its schemas and the codes that it declares itself in
 * `config.errors`.
 */
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
        content: { 'application/json': { schema: schemaOf(codes, style) } },
      },
    ]),
  )
}

function codesOf(route: RouteOptions, style: ErrorStyle): Set<ErrorCode> {
  const { access = 'public', errors = [] } = route.config ?? {}
  const { body, params, querystring, headers } = route.schema ?? {}
  const codes = new Set([...always, ...(style === 'coded' ? byAccess : byAccessPlain)[access]])
  if (body || params || querystring || headers) codes.add('VALIDATION_ERROR')
  if (params) codes.add('NOT_FOUND')
  // The payment API reads, and refuses, a body also where none is expected.
  if (body || (style === 'coded' && ![route.method].flat().includes('GET'))) {
    codes.add('REQUEST_TIMEOUT').add('PAYLOAD_TOO_LARGE').add('UNSUPPORTED_MEDIA_TYPE')
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
    ([code, { status, text }]) => `| \`${code}\` | ${status} | ${text} |`,
  )
  return ['| Code | Status | Meaning |', '|---|---|---|', ...rows].join('\n')
}
