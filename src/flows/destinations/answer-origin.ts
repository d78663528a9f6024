import type { Answer } from '../../outbound/guarded-request.ts'
import type { Reason } from '../../texts/reason.ts'
import { isHtmlPage, jsonOf } from '../net/http-text.ts'
import type { HttpDefinition } from '../types.ts'

/**
 * What a successful response must be: `object`: a JSON object; `json`: any JSON that may mean "nothing found", so also a list
 * or null; `any`: everything but an HTML page.
 */
export type ExpectedBody = 'object' | 'json' | 'any'

type JsonRules = {
  remember?: unknown
  find?: unknown
  batch?: { answers?: string | undefined } | undefined
  answers?: HttpDefinition['answers']
}

/** Whether the definition reads JSON from successful responses. A response without any is then not one of this API. */
export function readsJson({ remember, find, batch, answers = [] }: JsonRules): boolean {
  if (remember !== undefined || find !== undefined || batch?.answers !== undefined) return true
  return answers.some(
    ({ status, when }) =>
      (!status || status.some(isSuccess)) && when !== undefined && namesBody(when),
  )
}

/**
 * Why the response is not from this API; undefined when it may be. Judged by the body: proxies, firewalls and login pages
 * answer with any status and content type.
 */
export function foreignReason(answer: Answer, expected: ExpectedBody): Reason | undefined {
  const { status } = answer
  if (mayBePage(status) && isHtmlPage(answer)) return { code: 'BODY_IS_PAGE' }
  if (expected === 'any' || !isSuccess(status) || answer.isCut) return undefined
  const isEmpty = answer.body.length === 0
  if (isEmpty) return status === 200 ? { code: 'BODY_IS_EMPTY' } : undefined
  const document = jsonOf(answer)
  const isObject = typeof document === 'object' && document !== null && !Array.isArray(document)
  const isJson = typeof document === 'object' && expected === 'json'
  return isObject || isJson ? undefined : { code: 'BODY_NO_OBJECT' }
}

/** GraphQL reports a failure of the server with status 200 (Shopify, Apollo). */
export function isGraphqlFailure(answer: Answer): boolean {
  if (!isSuccess(answer.status) || !answer.body.includes('INTERNAL_SERVER_ERROR')) return false
  const document = jsonOf(answer)
  const errors = typeof document === 'object' && document !== null && 'errors' in document
  const list = errors && Array.isArray(document.errors) ? document.errors : []
  return list.some((error) => error?.extensions?.code === 'INTERNAL_SERVER_ERROR')
}

export function isSuccess(status: number): boolean {
  return status >= 200 && status <= 299
}

/** Other refusals concern the request itself, such as 413 of a proxy. 5xx is an outage anyway. */
function mayBePage(status: number): boolean {
  return status <= 399 || [401, 403, 404, 407, 410, 451].includes(status)
}

const literal = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g

function namesBody(expression: string): boolean {
  return /\bbody\b/.test(expression.replace(literal, ''))
}
