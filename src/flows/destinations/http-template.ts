import { ReasonError } from '../../domain/flow-reasons.ts'
import type { Secret } from '../../domain/secret.ts'
import type { DeliveryJob } from '../types.ts'

/** No request can be built: a value does not fit the template, or the body does not fit its format. */
export class TemplateError extends ReasonError {}

export type Placeholders = Pick<DeliveryJob, 'pk' | 'jobKey'> &
  Partial<Pick<DeliveryJob, 'body' | 'remembered'>>

/**
 * Fills `{pk}`, `{body.name}` (a field of the mapped body), `{remembered.name}` (all percent-encoded) and `{jobKey}` into an
 * address. `{+remembered.name}` keeps the slashes of a value with several path segments (RFC 6570, 3.2.3).
 *
 * Throws TemplateError for the values `.` and `..`: every client resolves such segments, encoded or not, so `stores/{pk}`
 * would become another address.
 */
export function fillUrl(template: string, job: Placeholders): string {
  const url = fill(template, job)
  const path = url.split(/[?#]/, 1)[0] ?? ''
  if (/^[a-z]+:\/\/[^/]*.*\/\//i.test(path)) {
    throw new TemplateError({ code: 'ADDRESS_EMPTY_SEGMENT' })
  }
  if (path.split('/').some((segment) => /^(\.|%2e){1,2}$/i.test(segment))) {
    throw new TemplateError({ code: 'ADDRESS_KEY', data: { pk: JSON.stringify(job.pk) } })
  }
  return url
}

/**
 * Like `fillUrl`, for a header. Headers are ASCII only, so the key is percent-encoded too. A password from a reference is not
 * encoded.
 */
export function fillHeader(template: Secret, job: Placeholders): string {
  return template.withWritten((written) => fill(written, job))
}

/** Throws TemplateError when the receiver's host depends on an item: an item must not choose the host. */
export function checkTemplate(template: string): void {
  const origin = (value: string) => URL.parse(template.replace(placeholder, value))?.origin
  if (origin('a') === undefined || origin('a') !== origin('b')) {
    throw new TemplateError({ code: 'ADDRESS_HOST_OF_ITEM' })
  }
}

export const placeholder = /\{(\+)?(?:(pk|jobKey)|(body|remembered)\.([^{}]{1,128}))\}/g

function fill(template: string, job: Placeholders): string {
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
  { body, remembered = {} }: Placeholders,
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
