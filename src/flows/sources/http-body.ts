import { Secret } from '../../domain/flow-secret.ts'
import type { Flow } from '../definition/schema.ts'
import { escapeXml } from '../net/http-body.ts'
import { secretsIn } from '../net/mask-secrets.ts'

export type RequestBody = NonNullable<Extract<Flow['source'], { type: 'http' }>['body']>
type BodyValue = Exclude<RequestBody['json'], undefined>

/** Values of the placeholders; `next` is null for the first page. */
export type BodyValues = Readonly<Record<string, string | number | null>>

const contentTypes = {
  graphql: 'application/json',
  json: 'application/json',
  form: 'application/x-www-form-urlencoded',
  xml: 'text/xml; charset=utf-8',
}

/** The default content type of a body; a header in the flow file replaces it. */
export function contentTypeOf(body: RequestBody): string {
  if (body.xml) return contentTypes.xml
  return body.form ? contentTypes.form : contentTypes.json
}

/** Fills the placeholders of a body, escaped for its format, so that a value cannot change the structure. */
export function writeRequestBody(body: RequestBody, values: BodyValues): string {
  if (body.xml) {
    // A referenced value is text too: a password may contain markup characters.
    return body.xml.render((written) => fill(written, values, escapeXml), escapeXml)
  }
  if (body.form) {
    const fields = new URLSearchParams()
    for (const [name, value] of Object.entries(body.form)) {
      fields.append(
        name,
        value.withWritten((written) => fill(written, values)),
      )
    }
    return fields.toString()
  }
  if (body.graphql !== undefined) {
    const { graphql: query, variables = {} } = body
    return JSON.stringify({ query, variables: filled(variables, values) })
  }
  return JSON.stringify(filled(body.json ?? null, values))
}

/** Whether a text of the body contains the placeholder. */
export function hasPlaceholder(body: RequestBody | undefined, name: string): boolean {
  return secretsIn(body).some(({ template }) => template.includes(`{${name}}`))
}

const placeholder = /\{(\w+)\}/g

function fill(
  text: string,
  values: BodyValues,
  inForm: (value: string) => string = (value) => value,
): string {
  return text.replace(placeholder, (whole, name: string) =>
    Object.hasOwn(values, name) ? inForm(String(values[name] ?? '')) : whole,
  )
}

function filled(value: BodyValue, values: BodyValues): unknown {
  if (value instanceof Secret) {
    const [, only] = /^\{(\w+)\}$/.exec(value.template) ?? []
    if (only !== undefined && Object.hasOwn(values, only)) return values[only]
    return value.withWritten((written) => fill(written, values))
  }
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((one) => filled(one, values))
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, filled(one, values)]))
}
