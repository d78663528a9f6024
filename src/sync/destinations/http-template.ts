import type { Secret } from '../../domain/secret.ts'
import type { DeliveryJob } from '../types.ts'

/** A value of the template that cannot stand there; `message` is for the operator. */
export class TemplateError extends Error {}

export type Placeholders = Pick<DeliveryJob, 'pk' | 'jobKey'> &
  Partial<Pick<DeliveryJob, 'body' | 'remembered'>>

/**
 * Fills `{pk}`, `{body.name}` (a field of the mapped body), `{remembered.name}` (all percent-encoded) and `{jobKey}` into an
 * address. `{+remembered.name}` keeps the slashes of a value that is several segments of a path (RFC 6570, 3.2.3). Throws TemplateError when a value would change the path: a segment of one or two dots is resolved by every client,
 * encoded or not, so `stores/{pk}` would become another address.
 */
export function fillUrl(template: string, job: Placeholders): string {
  const url = fill(template, job)
  const path = url.split(/[?#]/, 1)[0] ?? ''
  if (/^[a-z]+:\/\/[^/]*.*\/\//i.test(path))
    throw new TemplateError('the address has an empty segment')
  if (path.split('/').some((segment) => /^(\.|%2e){1,2}$/i.test(segment))) {
    throw new TemplateError(`the key ${JSON.stringify(job.pk)} cannot stand in an address`)
  }
  return url
}

/**
 * As `fillUrl`, for a header: headers hold ASCII only, so the key is percent-encoded there too. A password from a reference
 * goes as it is, whatever it holds.
 */
export function fillHeader(template: Secret, job: Placeholders): string {
  return template.withWritten((written) => fill(written, job))
}

/** Throws TemplateError when the receiver's host would depend on an item: a key must not choose whom we call. */
export function checkTemplate(template: string): void {
  const origin = (value: string) => URL.parse(template.replace(placeholder, value))?.origin
  if (origin('a') === undefined || origin('a') !== origin('b')) {
    throw new TemplateError('the host of an address must not depend on the item')
  }
}

export const placeholder = /\{(\+)?(?:(pk|jobKey)|(body|remembered)\.([^{}]{1,128}))\}/g

function fill(template: string, job: Placeholders): string {
  return template.replace(placeholder, (whole, isPath, own, kind, name) => {
    const text =
      own === undefined
        ? fieldOf(job, kind, name, whole)
        : String(own === 'pk' ? job.pk : job.jobKey)
    if (text.trim() === '') throw new TemplateError(`there is no value for ${whole}`)
    if (!text.isWellFormed()) {
      throw new TemplateError(
        own === 'pk' ? 'the key holds broken Unicode' : `${whole} holds broken Unicode`,
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
  throw new TemplateError(
    kind === 'remembered'
      ? `nothing is remembered of the item for ${whole}`
      : `the mapped body has no value for ${whole}`,
  )
}
