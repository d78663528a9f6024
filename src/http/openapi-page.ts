import type { JsonObject } from './openapi-components.ts'
import { operationsOf } from './openapi-examples.ts'

/**
 * The description in the form that the page shows best. Routes come first: the table of errors is a schema, which the
 * page lists below them. A default is written as text, since the page would fill it in and send it.
 */
export function forPage(
  document: JsonObject,
  { description, errors }: { description: string; errors?: string },
): JsonObject {
  for (const operation of operationsOf(document)) {
    for (const parameter of (operation.parameters ?? []) as JsonObject[]) {
      const { default: standard, ...schema } = parameter.schema as JsonObject
      if (standard === undefined) continue
      parameter.schema = schema
      parameter.description = [parameter.description, `${standard} when left out`]
        .filter(Boolean)
        .join('; ')
    }
  }
  if (errors === undefined) return document
  const { schemas, ...components } = document.components as JsonObject
  return {
    ...document,
    info: {
      ...(document.info as JsonObject),
      description: `${description}\n\nThe codes of errors stand in \`ErrorCodes\`, the first of the schemas below the routes.`,
    },
    components: {
      ...components,
      schemas: { ErrorCodes: { type: 'string', description: errors }, ...(schemas as JsonObject) },
    },
  }
}
