import type { JsonObject } from './openapi-components.ts'

/** By operation: makes an answer for each code, by status. Only a request for the document needs them. */
export type ErrorExamples = Map<string, () => Record<string, Record<string, unknown>>>

/**
 * Puts into each error answer what the service really sends with that status, and writes examples of parameters in the
 * form of JSON Schema. Tools take the other form for an initial value, and would send a request about another client's
 * order.
 */
export function withExamples(document: JsonObject, errors: ErrorExamples): JsonObject {
  for (const operation of operationsOf(document)) {
    for (const parameter of (operation.parameters ?? []) as JsonObject[]) {
      const { example, ...schema } = parameter.schema as JsonObject
      if (example !== undefined) parameter.schema = { ...schema, examples: [example] }
    }
    const byStatus = errors.get(String(operation.operationId))?.() ?? {}
    for (const [status, answer] of Object.entries((operation.responses ?? {}) as JsonObject)) {
      const { content } = answer as { content?: Record<string, JsonObject> }
      const json = content?.['application/json']
      const examples = Object.entries(byStatus[status] ?? {})
      if (!json || examples.length === 0) continue
      json.examples = Object.fromEntries(
        examples.map(([code, value]) => [code, { value } as JsonObject]),
      )
    }
  }
  return document
}

export function operationsOf(document: JsonObject): JsonObject[] {
  const paths = Object.values((document.paths ?? {}) as Record<string, JsonObject>)
  return paths.flatMap((path) => Object.values(path) as JsonObject[])
}
