import { isRecord } from '../../domain/json.ts'
import { ReasonError } from '../../texts/reason.ts'

/** No request can be built: a value does not fit the template, or the body does not fit its format. */
export class TemplateError extends ReasonError {}

export type BodyForm = 'json' | 'form' | 'xml'

export const contentTypes: Readonly<Record<BodyForm, string>> = {
  json: 'application/json',
  form: 'application/x-www-form-urlencoded',
  xml: 'application/xml; charset=utf-8',
}

/** Writes a body in another form than JSON. Throws TemplateError. */
export function writeBody(form: Exclude<BodyForm, 'json'>, body: unknown): string {
  return form === 'form' ? writeForm(body) : writeXml(body)
}

/** Nested fields become `address[city]` and `lines[0]`, as PHP and Rails read them. Null fields are omitted. */
function writeForm(body: unknown): string {
  if (!isRecord(body)) throw new TemplateError({ code: 'FORM_NEEDS_OBJECT' })
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
  const roots = isRecord(body) ? Object.entries(body) : []
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
  if (!isRecord(value)) return `<${name}>${escapeXml(value)}</${name}>`
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
