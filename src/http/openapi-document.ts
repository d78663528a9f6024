/** An OpenAPI document is read as JSON. */
type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
export type JsonObject = { [key: string]: Json }

const prefix = '#/components/schemas/'

/**
 * Reduces the schemas that the type provider lists. It lists each named schema of the process twice, as `X` for answers
 * and `XInput` for requests, also those of the other listener. This drops what no path refers to. An input becomes `X`
 * when no answer uses that name or when both are equal.
 */
export function tidyComponents({ paths = {}, components = {}, ...rest }: JsonObject): JsonObject {
  const { schemas: listed, ...others } = components as JsonObject
  const schemas = (listed ?? {}) as JsonObject

  const used = namesUsed(paths, schemas)
  const renamed = namesToMerge(used, schemas)
  const kept: JsonObject = {}
  for (const name of [...used].sort()) {
    kept[renamed.get(name) ?? name] = rename(schemas[name] ?? null, renamed)
  }
  return { ...rest, components: { ...others, schemas: kept }, paths: rename(paths, renamed) }
}

/** Names that the value refers to, directly and indirectly. */
function namesUsed(value: Json, schemas: JsonObject): Set<string> {
  const used = new Set<string>()
  const open: Json[] = [value]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const name of refsIn(next)) {
      if (used.has(name) || !(name in schemas)) continue
      used.add(name)
      open.push(schemas[name] ?? null)
    }
  }
  return used
}

function refsIn(value: Json): string[] {
  return [...JSON.stringify(value).matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g)].map(
    (match) => match[1] ?? '',
  )
}

/**
 * Inputs that can have the plain name. Equal text is not enough when what both refer to differs between input and
 * output, so those are removed again until nothing changes.
 */
function namesToMerge(used: ReadonlySet<string>, schemas: JsonObject): Map<string, string> {
  const merged = new Map<string, string>()
  for (const name of used) {
    const plain = name.replace(/Input$/, '')
    if (plain === name || !(plain in schemas)) continue
    if (!used.has(plain) || neutral(schemas[name]) === neutral(schemas[plain])) {
      merged.set(name, plain)
    }
  }
  for (let changed = true; changed; ) {
    changed = false
    for (const [name, plain] of merged) {
      if (!used.has(plain)) continue
      const parts = refsIn(schemas[name] ?? null)
      if (parts.every((part) => part === name || merged.has(part) || !part.endsWith('Input')))
        continue
      merged.delete(name)
      changed = true
    }
  }
  return merged
}

/** The text of a schema, in which input and output have the same names for what they refer to. */
function neutral(schema: Json | undefined): string {
  return JSON.stringify(schema).replace(
    /("\$ref":"#\/components\/schemas\/[^"]+?)(Input)?"/g,
    '$1"',
  )
}

function rename(value: Json, names: ReadonlyMap<string, string>): Json {
  return JSON.parse(JSON.stringify(value), (key, part: Json) => {
    if (key !== '$ref' || typeof part !== 'string' || !part.startsWith(prefix)) return part
    const name = part.slice(prefix.length)
    return prefix + (names.get(name) ?? name)
  })
}

/** Answers of a running service, by operation and status, such as `listOrders 200`. */
export type AnswerExamples = Readonly<Record<string, unknown>>

/** By operation: makes an answer for each code, by status. Only a request for the document needs them. */
export type ErrorExamples = Map<string, () => Record<string, Record<string, unknown>>>

/**
 * Puts into each error answer what the service really sends with that status, and into others an answer of a running service.
 * Writes examples of parameters in the
 * form of JSON Schema. Tools take the other form for an initial value, and would send a request about another client's
 * order.
 */
export function withExamples(
  document: JsonObject,
  errors: ErrorExamples,
  answers: AnswerExamples,
): JsonObject {
  for (const operation of operationsOf(document)) {
    for (const parameter of (operation.parameters ?? []) as JsonObject[]) {
      const { example, ...schema } = parameter.schema as JsonObject
      if (example !== undefined) parameter.schema = { ...schema, examples: [example] }
    }
    const byStatus = errors.get(String(operation.operationId))?.() ?? {}
    for (const [status, answer] of Object.entries((operation.responses ?? {}) as JsonObject)) {
      const { content } = answer as { content?: Record<string, JsonObject> }
      const json = content?.['application/json']
      const success = answers[`${operation.operationId} ${status}`]
      if (json && success !== undefined) json.example = success as Json
      const examples = Object.entries(byStatus[status] ?? {})
      if (!json || examples.length === 0) continue
      json.examples = Object.fromEntries(
        examples.map(([code, value]) => [code, { value } as JsonObject]),
      )
    }
  }
  return document
}

function operationsOf(document: JsonObject): JsonObject[] {
  const paths = Object.values((document.paths ?? {}) as Record<string, JsonObject>)
  return paths.flatMap((path) => Object.values(path) as JsonObject[])
}

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

/** The library marks all bodies as required. */
export function releaseBodies(document: JsonObject, optional: ReadonlySet<string>): JsonObject {
  for (const operation of operationsOf(document)) {
    if (!optional.has(String(operation.operationId))) continue
    operation.requestBody = { ...(operation.requestBody as JsonObject), required: false }
  }
  return document
}
