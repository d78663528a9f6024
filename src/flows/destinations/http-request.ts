import { createHmac, hash } from 'node:crypto'
import type { Secret } from '../../domain/flow-secret.ts'
import type { RequestMethod } from '../../outbound/guarded-request.ts'
import type { Reason } from '../../texts/reason.ts'
import { withoutVersions } from '../definition/identity.ts'
import { compileExpression, type Expression } from '../mapping/expression.ts'
import { ExpressionError, shortReason } from '../mapping/expression-error.ts'
import { usedIn } from '../mapping/named-values.ts'
import { type BodyForm, contentTypes, TemplateError, writeBody } from '../net/http-body.ts'
import { hasDots } from '../net/path-segments.ts'
import type { DeliveryJob, HttpDefinition } from '../types.ts'

export type RequestTemplate = {
  method: RequestMethod
  /** May contain `{pk}`, `{jobKey}`, `{body.name}` and `{remembered.name}`. */
  url: Secret
  /** May contain the same placeholders. */
  headers: Readonly<Record<string, Secret>>
  /** Success statuses; default: every 2xx. */
  okStatus?: readonly number[] | undefined
  /** JSONata over `{ body, remembered, pk, jobKey }`; default: the mapped body. */
  body?: string | undefined
  /** Bodies that are sent one by one when the receiver refuses the whole body. */
  parts?: readonly string[] | undefined
}

/** How requests are signed: an HMAC over a text of the request. */
type Signing = NonNullable<HttpDefinition['sign']>

export type Request = {
  method: RequestMethod
  url: string
  headers: Record<string, string>
  body?: string
}

/** What a template may name. */
type RequestValues = Pick<DeliveryJob, 'pk' | 'jobKey' | 'body' | 'remembered'>

export type RequestMaker = {
  template: RequestTemplate
  /** Rejects with TemplateError when no request can be built from the item. */
  make(job: DeliveryJob): Promise<Request>
  /** The reason why `make` would reject, as far as it shows without running expressions. */
  problemOf(job: DeliveryJob): Reason | undefined
}

type Rules = {
  send: BodyForm
  sign?: Signing | undefined
  now: () => Date
  /** The address of a connection is the limit: values must not lead out of it, also where a receiver decodes them. */
  staysBelow?: boolean | undefined
}

/**
 * Compiles a request template. For a delete every value that it takes from `body` or `remembered` is required: without one it
 * could affect another item, or all items. The host never depends on the item: the definition refuses such an address.
 */
export function compileRequest(template: RequestTemplate, rules: Rules): RequestMaker {
  const expression = template.body === undefined ? undefined : compileExpression(template.body)
  const namesKey = `${template.url.reveal()} ${template.body ?? ''}`.includes('jobKey')
  const needed = neededIn(template)
  return {
    template,
    make: async (job) => {
      if (job.kind === 'delete') requireValues(needed, job)
      const fill = async (own: RequestValues) =>
        fillContent(template, own, expression ? await evaluate(expression, own) : own.body, rules)
      const first = await fill(job)
      const { pk, body, remembered } = job
      const keyed = { pk, body, remembered, jobKey: idempotencyKeyOf(job.jobKey, first) }
      // The key depends on the rest of the request. So a template with `{jobKey}` is filled a second time.
      const content = namesKey ? await fill(keyed) : first
      return { ...content, headers: headersOf(template, keyed, content, rules) }
    },
    problemOf: (job) => {
      try {
        if (job.kind === 'delete') requireValues(needed, job)
        const content = fillContent(template, job, expression ? undefined : job.body, rules)
        headersOf(template, job, content, rules)
        return undefined
      } catch (error) {
        if (error instanceof TemplateError) return error.why
        throw error
      }
    },
  }
}

/**
 * The idempotency key of a request (64 hex digits). It is the same for each attempt that sends the same request. It differs
 * for another method, address or body of the same change, because a receiver returns its first response for a repeated key.
 * Another API version is the same address, so an attempt in doubt keeps its key.
 */
export function idempotencyKeyOf(
  changeKey: string,
  { method, url, body }: { method: string; url: string; body?: string | undefined },
): string {
  const address = withoutVersions(url)
  return hash('sha256', JSON.stringify([changeKey, method, address, body ?? null]), 'hex')
}

type Needed = { root: 'body' | 'remembered'; name: string }

function neededIn(template: RequestTemplate): Needed[] {
  return (['body', 'remembered'] as const).flatMap((root) => {
    const names = usedIn(template, root)
    return names === 'all' ? [] : [...names].map((name) => ({ root, name }))
  })
}

/** @throws TemplateError when a required value is missing or empty. */
function requireValues(needed: readonly Needed[], job: RequestValues): void {
  for (const { root, name } of needed) {
    const given: unknown = job[root]
    const value = typeof given === 'object' && given !== null ? Object.entries(given) : []
    const found: unknown = value.find(([key]) => key === name)?.[1]
    const isEmpty = found === undefined || found === null || String(found).trim() === ''
    if (isEmpty) {
      throw new TemplateError({ code: 'DELETE_NEEDS', data: { name: `${root}.${name}` } })
    }
  }
}

async function evaluate(expression: Expression, job: RequestValues): Promise<unknown> {
  const { body = null, remembered = {}, pk, jobKey } = job
  try {
    return await expression.evaluate({ body, remembered, pk, jobKey })
  } catch (error) {
    if (!(error instanceof ExpressionError) || error.outOfTime) throw error
    throw new TemplateError({ code: 'REQUEST_BODY_FAILED', data: { what: shortReason(error) } })
  }
}

function fillContent(
  template: RequestTemplate,
  job: RequestValues,
  body: unknown,
  rules: Rules,
): Omit<Request, 'headers'> {
  const { method } = template
  // A DELETE has a body only with a body expression.
  const mayHaveBody = method !== 'GET' && (method !== 'DELETE' || template.body !== undefined)
  const text = mayHaveBody && body !== undefined && body !== null ? written(rules, body) : undefined
  const url = fillUrl(template.url.reveal(), job, rules)
  return { method, url, ...(text !== undefined && { body: text }) }
}

function headersOf(
  template: RequestTemplate,
  job: RequestValues,
  { method, url, body }: Omit<Request, 'headers'>,
  rules: Rules,
): Record<string, string> {
  const headers: Record<string, string> = {
    accept: 'application/json',
    'user-agent': 'tillbridge',
    'idempotency-key': job.jobKey,
    ...(body !== undefined && { 'content-type': contentTypes[rules.send] }),
  }
  for (const [name, value] of Object.entries(template.headers)) {
    headers[name.toLowerCase()] = fillHeader(value, job)
  }
  if (rules.sign) {
    sign(rules.sign, { method, url, headers, body: body ?? '', job, now: rules.now })
  }
  return headers
}

function sign(
  signing: Signing,
  request: {
    method: string
    url: string
    headers: Record<string, string>
    body: string
    job: RequestValues
    now: () => Date
  },
): void {
  const { pathname, search } = new URL(request.url)
  const values: Readonly<Record<string, string>> = {
    body: request.body,
    timestamp: String(Math.floor(request.now().getTime() / 1_000)),
    method: request.method,
    path: pathname + search,
    jobKey: request.job.jobKey,
  }
  const text = signing.text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole)
  const mac = createHmac(signing.algorithm, signing.secret.reveal()).update(text)
  request.headers[signing.header.toLowerCase()] = signing.prefix + mac.digest(signing.encoding)
  if (signing.timestampHeader !== undefined) {
    request.headers[signing.timestampHeader.toLowerCase()] = values.timestamp ?? ''
  }
}

function written({ send }: Rules, body: unknown): string {
  return send === 'json' ? JSON.stringify(body) : writeBody(send, body)
}

/**
 * Fills `{pk}`, `{body.name}` (a field of the mapped body), `{remembered.name}` (all percent-encoded) and `{jobKey}` into an
 * address. `{+remembered.name}` keeps the slashes of a value with several path segments (RFC 6570, 3.2.3).
 *
 * Throws TemplateError for the values `.` and `..`: every client resolves such segments, encoded or not, so `stores/{pk}`
 * would become another address. With `staysBelow` also for values such as `../x`, which some receivers resolve.
 */
function fillUrl(template: string, job: RequestValues, { staysBelow }: Rules): string {
  const url = fill(template, job)
  const path = url.split(/[?#]/, 1)[0] ?? ''
  if (/^[a-z]+:\/\/[^/]*.*\/\//i.test(path)) {
    throw new TemplateError({ code: 'ADDRESS_EMPTY_SEGMENT' })
  }
  const hasDotSegment = path.split('/').some((segment) => /^(\.|%2e){1,2}$/i.test(segment))
  if (hasDotSegment || (staysBelow && hasDots(path))) {
    throw new TemplateError({ code: 'ADDRESS_KEY', data: { pk: JSON.stringify(job.pk) } })
  }
  return url
}

/**
 * Like `fillUrl`, for a header. Headers are ASCII only, so the key is percent-encoded too. A password from a reference is not
 * encoded.
 */
function fillHeader(template: Secret, job: RequestValues): string {
  return template.withWritten((written) => fill(written, job))
}

const placeholder = /\{(\+)?(?:(pk|jobKey)|(body|remembered)\.([^{}]{1,128}))\}/g

function fill(template: string, job: RequestValues): string {
  return template.replace(placeholder, (whole, isPath, own, kind, name) => {
    const text =
      own === undefined
        ? fieldOf(job, kind, name, whole)
        : String(own === 'pk' ? job.pk : job.jobKey)
    const data = { placeholder: whole }
    if (text.trim() === '') throw new TemplateError({ code: 'PLACEHOLDER_EMPTY', data })
    if (!text.isWellFormed()) {
      throw new TemplateError(
        own === 'pk' ? { code: 'PK_BROKEN_UNICODE' } : { code: 'PLACEHOLDER_BROKEN_UNICODE', data },
      )
    }
    if (isPath === undefined) return encodeURIComponent(text)
    return text.split('/').map(encodeURIComponent).join('/')
  })
}

function fieldOf(
  { body, remembered = {} }: RequestValues,
  kind: 'body' | 'remembered',
  name: string,
  whole: string,
): string {
  const fields = kind === 'remembered' ? remembered : body
  const isObject = typeof fields === 'object' && fields !== null && Object.hasOwn(fields, name)
  const value = isObject ? (fields as Record<string, unknown>)[name] : undefined
  const isText = typeof value === 'string' && value.trim() !== ''
  if (
    isText ||
    typeof value === 'number' ||
    typeof value === 'boolean' ||
    typeof value === 'bigint'
  ) {
    return String(value)
  }
  const code = kind === 'remembered' ? 'PLACEHOLDER_NOT_REMEMBERED' : 'PLACEHOLDER_NOT_MAPPED'
  throw new TemplateError({ code, data: { placeholder: whole } })
}
