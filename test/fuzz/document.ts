import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'

/** As much of JSON Schema 2020-12 as values are made from; answers are validated by all of it. */
export type JsonSchema = {
  $ref?: string
  type?: string | string[]
  enum?: unknown[]
  const?: unknown
  oneOf?: JsonSchema[]
  anyOf?: JsonSchema[]
  properties?: Record<string, JsonSchema>
  required?: string[]
  additionalProperties?: boolean | JsonSchema
  items?: JsonSchema
  pattern?: string
  format?: string
  minLength?: number
  maxLength?: number
  minimum?: number
  maximum?: number
  example?: unknown
}

export type Parameter = { name: string; in: string; required?: boolean; schema: JsonSchema }

type Content = Record<string, { schema?: JsonSchema }>

type RawOperation = {
  parameters?: Parameter[]
  security?: Record<string, unknown>[]
  requestBody?: { required?: boolean; content: Content }
  responses: Record<
    string,
    { description: string; content?: Content; headers?: Record<string, unknown> }
  >
}

export type RawDocument = {
  paths: Record<string, Record<string, RawOperation>>
  components: { schemas: Record<string, JsonSchema> }
}

export type Response = {
  description: string
  /** Media types; none when the answer has no body. */
  types: string[]
  validator(type: string): ValidateFunction
}

export type Operation = {
  /** `POST /orders/{orderId}`. */
  name: string
  method: string
  path: string
  parameters: Parameter[]
  body: { required: boolean; content: Map<string, JsonSchema> } | undefined
  responses: Map<number, Response>
  /** Names of the kinds of token that it takes; empty when it takes none. */
  tokens: string[]
}

export type Document = {
  operations: Operation[]
  /** The operation that a request target reaches, as the router of the listener finds it; undefined for none. */
  find(method: string, target: string): Operation | undefined
  /** The schema behind a reference, or the schema itself. */
  resolve(schema: JsonSchema): JsonSchema
  /** Validates against a named schema of the document. */
  named(name: string): ValidateFunction
}

const prefix = '#/components/schemas/'

/** An OpenAPI 3.1 document made ready to make requests from and to hold answers against. */
export function readDocument(raw: RawDocument): Document {
  const { components, paths } = raw
  // Patterns say what formats would; `example` and what else OpenAPI adds are no keywords of JSON Schema.
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  ajv.addSchema(raw, 'document', false, false)
  /** The validator of the schema that stands at this place of the document. Made when it is first needed. */
  const validatorAt = (...place: string[]) => {
    const pointer = place.map((part) => part.replaceAll('~', '~0').replaceAll('/', '~1'))
    const address = `document#/${pointer.map(encodeURIComponent).join('/')}`
    const validate = ajv.getSchema(address)
    if (!validate) throw new Error(`no schema at ${address}`)
    return validate
  }

  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Operation => {
      const { requestBody, responses, parameters = [], security = [] } = operation
      return {
        name: `${method.toUpperCase()} ${path}`,
        method: method.toUpperCase(),
        path,
        parameters,
        tokens: security.flatMap((one) => Object.keys(one)),
        body: requestBody && {
          required: requestBody.required === true,
          content: new Map(
            Object.entries(requestBody.content).map(([type, { schema }]) => [type, schema ?? {}]),
          ),
        },
        responses: new Map(
          Object.entries(responses).map(([status, { description, content = {} }]) => [
            Number(status),
            {
              description,
              types: Object.keys(content),
              validator: (type: string) =>
                validatorAt('paths', path, method, 'responses', status, 'content', type, 'schema'),
            },
          ]),
        ),
      }
    }),
  )

  const routes = operations
    .map((operation) => ({ operation, shape: shapeOf(operation.path) }))
    // A fixed part goes before a parameter.
    .sort((a, b) => countParameters(a.operation.path) - countParameters(b.operation.path))

  return {
    operations,
    find(method, target) {
      const path = decoded(target.split(/[?#]/, 1)[0] ?? '')
      return routes.find((route) => route.operation.method === method && route.shape.test(path))
        ?.operation
    },
    resolve: (schema) =>
      schema.$ref === undefined
        ? schema
        : (components.schemas[schema.$ref.slice(prefix.length)] ?? {}),
    named: (name) => validatorAt('components', 'schemas', name),
  }
}

function shapeOf(path: string): RegExp {
  const parts = path.split(/\{[^}]+\}/).map((part) => part.replace(/[.*+?^$()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${parts.join('[^/]*')}$`, 'su')
}

function countParameters(path: string): number {
  return path.split('{').length - 1
}

/** The router compares a path whose percent-encodings are undone, but for those of `/`, `?` and `#`. */
function decoded(path: string): string {
  try {
    return decodeURI(path)
  } catch {
    return path
  }
}

/** What is wrong with a value, in one line. */
export function describeErrors(errors: readonly ErrorObject[] | null | undefined): string {
  return (errors ?? [])
    .map(
      ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
    )
    .join('; ')
}
