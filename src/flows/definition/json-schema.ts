import { z } from 'zod'
import { zodFlowSchema } from './schema.ts'

/** The part of JSON Schema that the schema of flow files uses. */
export type JsonSchema = {
  type?: string
  const?: unknown
  enum?: readonly unknown[]
  properties?: Record<string, JsonSchema>
  additionalProperties?: JsonSchema | boolean
  items?: JsonSchema
  anyOf?: readonly JsonSchema[]
  oneOf?: readonly JsonSchema[]
  [key: string]: unknown
}

let built: JsonSchema | undefined

/**
 * JSON Schema of a flow file, for editors and for hints. It uses draft 7, which every editor supports, and has no rules that
 * involve several keys. It is built at its first use, in 20 ms, and not to be changed.
 */
export function flowJsonSchema(): JsonSchema {
  built ??= build()
  return built
}

function build(): JsonSchema {
  const schema = z.toJSONSchema(zodFlowSchema(), {
    io: 'input',
    target: 'draft-7',
    override: ({ zodSchema, jsonSchema }) => {
      // Zod leaves out examples of what it transforms, because they may be of the result. Ours are of the file.
      const examples = z.globalRegistry.get(zodSchema)?.examples
      if (Array.isArray(examples)) jsonSchema.examples = examples
      const pattern = portable(jsonSchema.pattern)
      if (pattern === undefined) delete jsonSchema.pattern
      else jsonSchema.pattern = pattern
    },
  })
  const { $schema, ...rest } = schema as JsonSchema
  return { $schema, title: 'tillbridge flow', ...withConnections(rest) }
}

/** The schema with `connection` and paths below it, which replace keys of the schema that checks the file. */
function withConnections(schema: JsonSchema): JsonSchema {
  const { source, destinations, alerts } = schema.properties ?? {}
  const channels = alerts?.properties?.onJobFailed
  for (const part of alternativesOf(source)) connect(part, ['item'])
  for (const part of alternativesOf(destinations?.items)) {
    connect(part, ['request', 'create', 'find', 'delete', 'batch'])
  }
  for (const part of alternativesOf(channels?.items)) {
    part.properties = { ...part.properties, connection: connectionKey }
    part.required = []
  }
  return schema
}

const connectionKey: JsonSchema = {
  type: 'string',
  pattern: '^[a-z0-9][a-z0-9_-]{0,63}$',
  description:
    'the name of a connection of the administrator, which gives the address and the credentials',
  examples: ['tienda'],
}
const pathKey: JsonSchema = {
  type: 'string',
  description: 'with `connection`, the path and query below its address',
  examples: ['/products/{pk}'],
}
/** Keys that a connection gives instead. */
const givenKeys = new Set(['url', 'driver', 'hostKey'])

function connect(part: JsonSchema, requests: readonly string[]): void {
  const type = String(part.properties?.type?.const)
  if (type.startsWith('payments.')) return
  part.properties = { ...part.properties, connection: connectionKey }
  relax(part)
  if (type !== 'http') return
  if (part.properties.url) part.properties.path = pathKey
  for (const name of requests) {
    for (const request of requestsOf(part.properties[name])) {
      request.properties = { ...request.properties, path: pathKey }
      relax(request)
    }
  }
}

function relax(schema: JsonSchema): void {
  const { required } = schema
  if (Array.isArray(required)) schema.required = required.filter((key) => !givenKeys.has(key))
}

/** The requests in a key: the key itself, its alternatives, entries of a list, and the request of a batch. */
function requestsOf(schema: JsonSchema | undefined): JsonSchema[] {
  if (!schema) return []
  if (schema.properties?.url) return [schema]
  return [...alternativesOf(schema), schema.items, schema.properties?.request].flatMap((one) =>
    one && one !== schema ? requestsOf(one) : [],
  )
}

function alternativesOf(schema: JsonSchema | undefined): readonly JsonSchema[] {
  return schema?.anyOf ?? schema?.oneOf ?? []
}

/** Some editors lack the flag that `\p{…}` needs. Such a pattern is omitted; the service checks it. */
function portable(pattern: string | undefined): string | undefined {
  const plain = pattern?.replaceAll('\\p{Cc}', '\\u0000-\\u001f\\u007f-\\u009f')
  return plain?.includes('\\p{') ? undefined : plain
}

/** The schemas for the value at a path. Alternatives are included when their constants match the file. */
export function schemasAt(
  schema: JsonSchema,
  value: unknown,
  path: readonly (string | number)[],
): JsonSchema[] {
  const here = alternatives(schema, value)
  const [step, ...rest] = path
  if (step === undefined) return here
  return here.flatMap((one) => {
    const next = childOf(one, step)
    return next ? schemasAt(next, valueAt(value, [step]), rest) : []
  })
}

/** The value at a path of the parsed file; undefined when there is none. */
export function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  let found = value
  for (const step of path) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, step)) return undefined
    found = (found as Record<PropertyKey, unknown>)[step]
  }
  return found
}

function childOf(schema: JsonSchema, step: string | number): JsonSchema | undefined {
  if (typeof step === 'number') return schema.items
  const { properties, additionalProperties } = schema
  if (properties && Object.hasOwn(properties, step)) return properties[step]
  return typeof additionalProperties === 'object' ? additionalProperties : undefined
}

function alternatives(schema: JsonSchema, value: unknown): JsonSchema[] {
  const several = schema.anyOf ?? schema.oneOf
  if (!several) return [schema]
  const all = several.flatMap((one) => alternatives(one, value))
  const suited = all.filter((one) =>
    Object.entries(one.properties ?? {}).every(([name, { const: constant }]) => {
      const given = valueAt(value, [name])
      return constant === undefined || given === undefined || given === constant
    }),
  )
  return suited.length > 0 ? suited : all
}
