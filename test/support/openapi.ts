import { readFileSync } from 'node:fs'

export type Schema = {
  $ref?: string
  type?: string | string[]
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  enum?: string[]
  minimum?: number
  maximum?: number
  maxLength?: number
  default?: unknown
  example?: unknown
  additionalProperties?: unknown
  oneOf?: Schema[]
}

export type Operation = {
  operationId: string
  summary: string
  tags: string[]
  security: object[]
  parameters?: {
    name: string
    in: string
    required?: boolean
    description?: string
    schema: Schema
  }[]
  requestBody?: { content: { 'application/json': { schema: Schema } } }
  responses: Record<
    string,
    { description: string; content?: { 'application/json'?: { schema: Schema } } }
  >
}

export type OpenApiDocument = {
  info: { description: string }
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Schema> }
}

export type ContractRoute = {
  method: string
  path: string
  access: 'public' | 'client' | 'admin' | 'signed'
  query?: Record<string, boolean | null>
  body?: Record<string, boolean | null>
  success?: number[]
  out?: string[]
  items?: Record<string, string[]>
}

export type Contract = {
  routes: ContractRoute[]
  pages: string[]
  enums: Record<string, string[]>
  limits: Record<string, number | number[]>
}

/** The tables of the specification as data. */
export function readContract(): Contract {
  const file = new URL('../payment/contract.json', import.meta.url)
  return JSON.parse(readFileSync(file, 'utf8')) as Contract
}

export function operationOf(
  document: OpenApiDocument,
  route: { method: string; path: string },
): Operation {
  const operation = document.paths[route.path]?.[route.method.toLowerCase()]
  if (!operation) throw new Error(`${route.method} ${route.path} is not described`)
  return operation
}

/** The schema itself when it is a reference, with its fields. */
export function fieldsOf(document: OpenApiDocument, schema: Schema | undefined) {
  const name = schema?.$ref?.split('/').at(-1)
  const found = (name === undefined ? schema : document.components.schemas[name]) ?? {}
  return { schema: found, properties: found.properties ?? {}, required: found.required ?? [] }
}

/** The schema of the JSON that a route answers with the first of these statuses that has one. */
export function successSchema(
  document: OpenApiDocument,
  route: { method: string; path: string },
  statuses: readonly number[],
): Schema {
  const { responses } = operationOf(document, route)
  for (const status of statuses) {
    const schema = responses[status]?.content?.['application/json']?.schema
    if (schema) return schema
  }
  throw new Error(`${route.method} ${route.path} describes no answer`)
}
