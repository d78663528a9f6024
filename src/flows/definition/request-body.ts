import { z } from 'zod'
import type { Secret } from '../../domain/flow-secret.ts'
import { unknownPlaceholder } from './addresses.ts'
import type { FlowContext } from './flow-context.ts'
import { isReferenced, literalParts, resolveReferences } from './secret-references.ts'
import { isExactNumber, notExact, report, secretText, text } from './value-schemas.ts'

/** A JSON value whose texts may contain references and placeholders. */
type BodyValue = Secret | number | boolean | null | BodyValue[] | { [name: string]: BodyValue }

const secretName = /passw|pwd|secret|api_?key|clave|contrase|^(access_?)?token$/i
const secretElement =
  /<(?:[\w.-]+:)?([\w.-]*(?:passw|pwd|secret|apikey|clave|contrase)[\w.-]*|token)\b[^>]*>([^<]*)</gi
const noSecret = { code: 'LITERAL_PASSWORD' } as const
const deepest = 32

/**
 * The body of a read request. Its texts may contain the given placeholders, such as `{cursor}`. Each is filled as a value of
 * the body's format: a JSON text that is only a placeholder becomes a number or null when the value is one.
 */
export function requestBody(context: FlowContext, placeholders: readonly string[]) {
  const bodyText = () =>
    secretText(
      context,
      (template) => {
        const written = literalParts(template)
        return unknownPlaceholder(written, written, placeholders)
      },
      { takesLines: true },
    )
  const value = `{${placeholders[0]}}`
  return z
    .strictObject({
      graphql: text()
        .optional()
        .meta({
          description:
            'a query, never a mutation; its values go into variables, never into its text',
          examples: [
            'query ($desde: DateTime!) { productos(desde: $desde) { nodes { codigo precio } } }',
          ],
        }),
      variables: z
        .record(z.string(), z.unknown())
        .transform(
          (given, issues) =>
            bodyValue(given, context, placeholders, issues) as Record<string, BodyValue>,
        )
        .optional()
        .meta({
          description: 'values for the variables of the query',
          examples: [{ dato: value }],
        }),
      json: z
        .unknown()
        .transform((given, issues) =>
          given === undefined ? undefined : bodyValue(given, context, placeholders, issues),
        )
        .optional()
        .meta({ description: 'a body of JSON', examples: [{ dato: value }] }),
      form: z
        .record(z.string().min(1).max(256), bodyText())
        .optional()
        .meta({ description: 'fields of a form', examples: [{ dato: value }] }),
      xml: bodyText()
        .optional()
        .meta({
          description: 'a document, such as the envelope of SOAP',
          examples: [`<Listar><Dato>${value}</Dato></Listar>`],
        }),
    })
    .superRefine((body, issues) => {
      const kinds = (['graphql', 'json', 'form', 'xml'] as const).filter(
        (kind) => body[kind] !== undefined,
      )
      if (kinds.length !== 1) {
        report(issues, { code: 'NEEDS_ONE_BODY' })
      }
      if (body.variables && body.graphql === undefined) {
        report(issues, { code: 'ONLY_FOR_GRAPHQL' }, ['variables'])
      }
      if (body.graphql !== undefined && writes(body.graphql)) {
        report(issues, { code: 'NOT_A_READING_QUERY' }, ['graphql'])
      }
      for (const [name, { template }] of Object.entries(body.form ?? {})) {
        if (secretName.test(name) && isLiteral(template)) report(issues, noSecret, ['form', name])
      }
      const elements = [...(body.xml?.template ?? '').matchAll(secretElement)]
      if (elements.some(([, , content = '']) => isLiteral(content.trim()))) {
        report(issues, noSecret, ['xml'])
      }
    })
}

/** Whether a GraphQL document has a mutation or subscription. Comments and texts are ignored. */
function writes(document: string): boolean {
  const code = document.replace(/"""[\s\S]*?"""|"(?:[^"\\\n]|\\.)*"|#[^\n\r]*/g, ' ')
  return /(?:^|\})\s*(?:mutation|subscription)\b/.test(code)
}

/** Whether the value is in the file itself and not a reference or placeholder. */
function isLiteral(template: string): boolean {
  return template !== '' && !isReferenced(template) && !/^\{\w+\}$/.test(template)
}

function bodyValue(
  given: unknown,
  context: FlowContext,
  placeholders: readonly string[],
  issues: z.RefinementCtx,
  path: string[] = [],
): BodyValue {
  if (path.length > deepest) {
    report(issues, { code: 'NESTED_TOO_DEEP', data: { most: deepest } })
    return null
  }
  if (typeof given === 'number' && !isExactNumber(given)) report(issues, notExact, path)
  if (given === null || typeof given === 'number' || typeof given === 'boolean') return given
  if (typeof given === 'string') {
    const resolved = resolveReferences(given, context, { takesLines: true })
    if ('findings' in resolved) {
      for (const finding of resolved.findings) report(issues, finding, path)
      return null
    }
    const written = literalParts(given)
    const unknown = unknownPlaceholder(written, written, placeholders)
    if (unknown) report(issues, unknown, path)
    else if (secretName.test(path.at(-1) ?? '') && isLiteral(given)) {
      report(issues, noSecret, path)
    }
    return resolved.secret
  }
  if (Array.isArray(given)) {
    return given.map((one, index) =>
      bodyValue(one, context, placeholders, issues, [...path, String(index)]),
    )
  }
  if (typeof given !== 'object') {
    report(issues, { code: 'NO_JSON_VALUE' }, path)
    return null
  }
  // An assignment to __proto__ would not create a field.
  return Object.fromEntries(
    Object.entries(given).map(([name, one]) => [
      name,
      bodyValue(one, context, placeholders, issues, [...path, name]),
    ]),
  )
}
