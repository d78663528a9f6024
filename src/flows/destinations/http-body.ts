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

export type BodyForm = 'json' | 'form' | 'xml'

export const contentTypes: Readonly<Record<BodyForm, string>> = {
  json: 'application/json',
  form: 'application/x-www-form-urlencoded',
  xml: 'application/xml; charset=utf-8',
}

/** Throws TemplateError. */
export function writeBody(form: BodyForm, body: unknown): string {
  if (form === 'json') return JSON.stringify(body)
  return form === 'form' ? writeForm(body) : writeXml(body)
}

/** Nested fields become `address[city]` and `lines[0]`, as PHP and Rails read them. Null fields are omitted. */
function writeForm(body: unknown): string {
  if (!isObject(body)) throw new TemplateError({ code: 'FORM_NEEDS_OBJECT' })
  const fields = new URLSearchParams()
  const add = (name: string, value: unknown): void => {
    if (value === null || value === undefined) return
    if (typeof value === 'object') {
      for (const [key, one] of Object.entries(value)) add(`${name}[${key}]`, one)
    } else fields.append(name, String(value))
  }
  for (const [name, value] of Object.entries(body)) add(name, value)
  return fields.toString()
}

const elementName = /^[\p{L}_][\p{L}\p{N}_.-]*(:[\p{L}_][\p{L}\p{N}_.-]*)?$/u
const mostDepth = 100

/**
 * An object with one field becomes the element of that name. A list repeats its element. `@name` is an attribute, `#text` the
 * text beside attributes.
 */
function writeXml(body: unknown): string {
  const roots = isObject(body) ? Object.entries(body) : []
  const [root] = roots
  if (!root || roots.length > 1) throw new TemplateError({ code: 'XML_NEEDS_ROOT' })
  return `<?xml version="1.0" encoding="UTF-8"?>${element(root[0], root[1], 0)}`
}

function element(name: string, value: unknown, depth: number): string {
  if (!elementName.test(name)) {
    throw new TemplateError({ code: 'XML_ELEMENT_NAME', data: { name: JSON.stringify(name) } })
  }
  if (depth > mostDepth) throw new TemplateError({ code: 'XML_NESTED_TOO_DEEP' })
  if (Array.isArray(value)) return value.map((one) => element(name, one, depth + 1)).join('')
  if (!isObject(value)) return `<${name}>${escapeXml(value)}</${name}>`
  const attributes = Object.entries(value)
    .filter(([key]) => key.startsWith('@'))
    .map(([key, one]) => attribute(key.slice(1), one))
  const inner = Object.entries(value)
    .filter(([key]) => !key.startsWith('@'))
    .map(([key, one]) => (key === '#text' ? escapeXml(one) : element(key, one, depth + 1)))
  return `<${name}${attributes.join('')}>${inner.join('')}</${name}>`
}

function attribute(name: string, value: unknown): string {
  if (!elementName.test(name)) {
    throw new TemplateError({ code: 'XML_ATTRIBUTE_NAME', data: { name: JSON.stringify(name) } })
  }
  return ` ${name}="${escapeXml(value)}"`
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
}

/** Escapes a text for an element or attribute. Throws TemplateError for a list or an object. */
export function escapeXml(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (typeof value === 'object') throw new TemplateError({ code: 'XML_TEXT_KIND' })
  // Removes the characters that XML 1.0 does not allow, even escaped.
  const text = String(value).replace(
    /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu,
    '',
  )
  return text.replace(/[&<>"']/g, (sign) => entities[sign] ?? sign)
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
