import fc from 'fast-check'
import type { Document, Operation } from './document.ts'
import { hostileText, type Known, valueMaker } from './values.ts'

/**
 * A generated request. Names such as `{{order:paid}}` stand for values that exist only in a run, so one seed makes
 * the same requests each time, and what is printed can be read.
 */
export type FuzzRequest = {
  /** Name of the caller whose token or session it has. */
  caller: string
  method: string
  /** With its query, percent-encoded. */
  target: string
  headers: Record<string, string>
  body?: { text: string /** So many spaces behind it. */; padding?: number }
}

export const bodyLimitBytes = 256 * 1024

const types = [
  'application/json; charset=utf-8',
  'application/json; charset=utf-16',
  'APPLICATION/JSON',
  'application/jsonp',
  'text/plain',
  'text/html',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'application/octet-stream',
  'x',
  ';',
]

/** Texts that are no JSON, or that JSON parsers should not be trusted with. */
const brokenTexts = [
  '',
  '{',
  '{"a":',
  '{}{}',
  'null',
  'undefined',
  '\ufeff',
  '\ufeff{}',
  '{"__proto__":{"isAdmin":true}}',
  '{"constructor":{"prototype":{"a":1}}}',
  '{"a":1,"a":2}',
  `${'['.repeat(200)}${']'.repeat(200)}`,
  '[1e999]',
  '"\\ud83e"',
  '"\\u0000"',
]

const methods = [
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'OPTIONS',
  'TRACE',
  'PROPFIND',
  'PURGE',
]

const oddTargets = [
  '/',
  '//',
  '/?',
  '/.env',
  '/..',
  '/%2e%2e/%2e%2e/etc/passwd',
  '/%',
  '/%zz',
  '/%ff',
  '/%00',
  '/orders/%',
  '/orders/%zz',
  '/orders/%ff%fe',
  '/orders/',
  '//orders',
  '/ORDERS',
  '/orders/x/',
  `/orders/${'x'.repeat(1024)}`,
  `/orders/${'x'.repeat(1025)}`,
  `/flow/${'x'.repeat(1025)}/items/x`,
  '/orders/..%2fapi-keys',
  '/stores/%2F/pos/%2F',
  '/reset/',
  '/reset/articles/',
  '/flow//pause',
  '/sync/articles/',
  '/flow-files//dry-run',
  '/docs',
  '/docs/',
  '/docs/json',
  '/docs/%2e%2e/%2e%2e/package.json',
  '/dashboard',
  '/dashboard/%2e%2e%2f%2e%2e%2fpackage.json',
  '/admin',
  '/admin/',
  '/admin/clients/',
  '/openapi.json',
  '/openapi.json?x=%00',
  '/shared/',
  '/shared/%00',
  '/vendor/x',
  '/favicon.ico',
  '/robots.txt',
  '/oauth',
  '/health/',
  '/health?__proto__=1&constructor=1',
  '/health%3Fx',
  '/metrics;x=1',
  '/stats#x',
]

const headerPairs: [string, string][] = [
  ['accept', 'text/html'],
  ['accept', 'text/plain'],
  ['accept', 'application/openmetrics-text'],
  ['accept', 'application/xml'],
  ['accept-language', 'en'],
  ['accept-language', ';;;=q'],
  ['accept-encoding', 'br'],
  ['accept-encoding', 'gzip;q=0'],
  ['idempotency-key', 'key-1'],
  ['idempotency-key', 'with spaces'],
  ['idempotency-key', '\u00ff'],
  ['last-event-id', '1'],
  ['last-event-id', 'x'],
  ['x-request-id', 'mine-1'],
  ['x-request-id', '<script>'],
  ['x-forwarded-for', 'unknown, ::1'],
  ['x-forwarded-host', 'evil.example'],
  ['origin', 'https://evil.example'],
  ['sec-fetch-site', 'cross-site'],
  ['sec-fetch-site', 'same-origin'],
  ['if-none-match', '*'],
  ['range', 'bytes=0-1'],
  ['content-encoding', 'gzip'],
  ['x-signature', 'ts=1,v1='],
  ['x-http-method-override', 'DELETE'],
  ['cookie', 'tillbridge-session=x; ;=;%'],
]

export type Callers = {
  all: readonly string[]
  /** Those that get past the guard of an operation which takes these kinds of token. */
  entitled(tokens: readonly string[]): readonly string[]
}

/** Requests made from the document: of every operation, by every caller, and of what is none of them. */
export function requestMaker(document: Document, callers: Callers, known: Known) {
  const values = valueMaker(document, known)
  const anybody = fc.constantFrom(...callers.all)
  const callerOf = ({ tokens }: Operation) =>
    fc.oneof(
      { weight: 1, arbitrary: anybody },
      { weight: 2, arbitrary: fc.constantFrom(...callers.entitled(tokens)) },
    )
  const extraHeaders = fc
    .array(fc.constantFrom(...headerPairs), { maxLength: 2 })
    .map((pairs) => Object.fromEntries(pairs))

  const targetOf = ({ path, parameters }: Operation): fc.Arbitrary<string> => {
    const inPath = parameters.filter((one) => one.in === 'path')
    const inQuery = parameters.filter((one) => one.in === 'query')
    const parts = fc.tuple(...inPath.map((one) => values.parameter(one.name, one.schema)))
    const query = fc.tuple(
      ...inQuery.map((one) =>
        fc.option(values.parameter(one.name, one.schema), {
          freq: one.required ? 9 : 1,
          nil: undefined,
        }),
      ),
    )
    const names = [...inQuery.map(({ name }) => name), 'x', 'client', '__proto__']
    const extra = fc.oneof(
      { weight: 9, arbitrary: fc.constant(undefined) },
      { weight: 1, arbitrary: fc.tuple(fc.constantFrom(...names), hostileText) },
    )
    return fc.tuple(parts, query, extra).map(([found, asked, more]) => {
      let index = 0
      const filled = path.replace(/\{[^}]+\}/g, () => encoded(found[index++] ?? ''))
      const pairs = inQuery.flatMap(({ name }, at) =>
        asked[at] === undefined ? [] : [[name, asked[at]] as const],
      )
      if (more) pairs.push(more)
      const text = pairs.map(([name, value]) => `${encoded(name)}=${encoded(value)}`).join('&')
      return text === '' ? filled : `${filled}?${text}`
    })
  }

  const headersOf = ({ parameters }: Operation): fc.Arbitrary<Record<string, string>> => {
    const named = parameters.filter((one) => one.in === 'header')
    return fc
      .tuple(
        fc.record(
          Object.fromEntries(
            named.map((one) => [one.name, values.parameter(one.name, one.schema).map(headerText)]),
          ),
          { requiredKeys: [] },
        ),
        extraHeaders,
      )
      .map(([own, extra]) => ({ ...extra, ...own }) as Record<string, string>)
  }

  const bodyOf = ({
    body,
    method,
  }: Operation): fc.Arbitrary<Pick<FuzzRequest, 'body' | 'headers'>> => {
    const broken = fc
      .tuple(fc.constantFrom(...brokenTexts), fc.constantFrom('application/json', ...types))
      .map(([text, type]) => ({ body: { text }, headers: { 'content-type': type } }))
    const none = fc.constant({ headers: {} })
    if (!body) {
      if (method === 'GET')
        return fc.oneof({ weight: 9, arbitrary: none }, { weight: 1, arbitrary: broken })
      const huge = fc.constant({
        body: { text: '{}', padding: bodyLimitBytes },
        headers: { 'content-type': 'application/json' },
      })
      return fc.oneof(
        { weight: 7, arbitrary: none },
        { weight: 2, arbitrary: broken },
        { weight: 1, arbitrary: huge },
      )
    }
    const forms = [...body.content].map(([type, schema]) =>
      fc
        .tuple(values.body(schema), fc.constantFrom(0, 0, 0, 0, 0, 0, 0, 0, 0, 1, bodyLimitBytes))
        .map(([value, padding]) => ({
          headers: { 'content-type': type },
          body: {
            text: type.endsWith('urlencoded') ? formText(value) : (JSON.stringify(value) ?? ''),
            ...(padding > 0 && { padding }),
          },
        })),
    )
    const retyped = fc
      .tuple(values.body([...body.content.values()][0] ?? {}), fc.constantFrom(...types))
      .map(([value, type]) => ({
        body: { text: JSON.stringify(value) ?? '' },
        headers: { 'content-type': type },
      }))
    return fc.oneof(
      { weight: 14, arbitrary: fc.oneof(...forms) },
      { weight: 2, arbitrary: broken },
      { weight: 1, arbitrary: retyped },
      { weight: 1, arbitrary: none },
    )
  }

  const made = document.operations.map((operation) =>
    fc
      .record({
        caller: callerOf(operation),
        target: targetOf(operation),
        own: headersOf(operation),
        body: bodyOf(operation),
      })
      .map(
        ({ caller, target, own, body }): FuzzRequest => ({
          caller,
          method: operation.method,
          target,
          ...body,
          headers: { ...own, ...body.headers },
        }),
      ),
  )
  const documented = fc.oneof(...made)

  const targets = document.operations.map(targetOf)
  const odd = fc
    .record({
      caller: anybody,
      method: fc.constantFrom(...methods),
      target: fc.oneof(fc.constantFrom(...oddTargets), fc.oneof(...targets)),
      headers: extraHeaders,
      body: fc.option(fc.constantFrom(...brokenTexts), { freq: 3, nil: undefined }),
    })
    .map(({ body, headers, ...rest }): FuzzRequest => {
      if (body === undefined || rest.method === 'TRACE') return { ...rest, headers }
      return {
        ...rest,
        headers: { ...headers, 'content-type': 'application/json' },
        body: { text: body },
      }
    })

  return fc.oneof({ weight: 9, arbitrary: documented }, { weight: 1, arbitrary: odd })
}

/** Percent-encoded; names such as `{{order:paid}}` are left as they are, and half a character becomes what no UTF-8 is. */
function encoded(text: string): string {
  if (/^\{\{.*\}\}$/.test(text)) return text
  return text.isWellFormed() ? encodeURIComponent(text) : '%ff'
}

/** Headers hold Latin-1 without control characters. */
function headerText(text: string): string {
  return /^\{\{.*\}\}$/.test(text)
    ? text
    : text.replace(/[^\u0020-\u007e\u00a0-\u00ff]/g, '?').trim()
}

function formText(value: unknown): string {
  if (value === null || typeof value !== 'object') return String(value)
  return Object.entries(value)
    .map(([name, field]) => `${encoded(name)}=${encoded(plain(field))}`)
    .join('&')
}

function plain(field: unknown): string {
  return field !== null && typeof field === 'object' ? JSON.stringify(field) : String(field)
}
