import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { errorCatalogue } from '../../src/errors/app-error.ts'
import { lintOpenApi } from '../http/lint-openapi.ts'
import {
  type ContractRoute,
  fieldsOf,
  type OpenApiDocument,
  operationOf,
  readContract,
  type Schema,
  successSchema,
} from '../support/openapi.ts'
import { startTestService, type TestService } from '../support/service.ts'

const contract = readContract()
let service: TestService
let document: OpenApiDocument
beforeAll(async () => {
  service = await startTestService()
  const answer = await service.app.inject('/openapi.json')
  expect(answer.statusCode).toBe(200)
  document = answer.json()
})
afterAll(() => service.stop())

/** Success statuses that the specification leaves open. */
const created = new Set(['/orders', '/api-keys', '/stores', '/stores/{storeExternalId}/pos'])

function successesOf(route: ContractRoute): number[] {
  if (route.success) return route.success
  return [route.method === 'POST' && created.has(route.path) ? 201 : 200]
}

const securityOf = {
  public: [],
  // The signature of a webhook covers a header and the query, which no security scheme of OpenAPI describes.
  signed: [],
  client: [{ clientKey: [] }, { adminToken: [] }],
  admin: [{ adminToken: [] }],
}

describe.each(contract.routes)('$method $path', (route) => {
  test('is described with its access, its success statuses and a 4xx', () => {
    const operation = operationOf(document, route)
    expect(operation.security).toEqual(securityOf[route.access])
    const statuses = Object.keys(operation.responses).map(Number)
    expect(statuses).toEqual(expect.arrayContaining(successesOf(route)))
    expect(statuses.some((status) => status >= 400 && status < 500)).toBe(true)
    if (route.access !== 'public') expect(statuses).toContain(401)
  })

  test('accepts the query of the specification and requires nothing more', () => {
    const parameters = operationOf(document, route).parameters ?? []
    const inQuery = parameters.filter((parameter) => parameter.in === 'query')
    const named = new Map(inQuery.map(({ name, required }) => [name, required === true]))
    for (const [name, required] of Object.entries(route.query ?? {})) {
      expect(named.has(name), name).toBe(true)
      if (required !== null) expect(named.get(name), name).toBe(required)
    }
    const asked = [...named].filter(([, required]) => required).map(([name]) => name)
    const known = Object.entries(route.query ?? {}).filter(([, required]) => required !== false)
    expect(known.map(([name]) => name)).toEqual(expect.arrayContaining(asked))
    const inPath = parameters.filter((parameter) => parameter.in === 'path')
    expect(inPath.map(({ name }) => `{${name}}`)).toEqual(route.path.match(/\{[^}]+\}/g) ?? [])
  })

  test('accepts the body of the specification, requires nothing more and refuses unknown fields', () => {
    const content = operationOf(document, route).requestBody?.content['application/json']
    if (!route.body) {
      expect(content).toBeUndefined()
      return
    }
    const { properties, required, schema } = fieldsOf(document, content?.schema)
    for (const [name, wanted] of Object.entries(route.body)) {
      expect(properties, name).toHaveProperty(name)
      // A body with several forms: the first is that of the specification and requires the field.
      const ownForm = schema.oneOf?.[0]?.required ?? []
      if (wanted !== null) expect([...required, ...ownForm].includes(name), name).toBe(wanted)
    }
    expect(Object.keys(route.body)).toEqual(expect.arrayContaining(required))
    expect(schema.additionalProperties).toBe(false)
  })

  test('answers with all fields of the specification', () => {
    if (!route.out) return
    const answer = fieldsOf(document, successSchema(document, route, successesOf(route)))
    for (const name of route.out) expect(answer.required, name).toContain(name)
    for (const [list, fields] of Object.entries(route.items ?? {})) {
      const items = fieldsOf(document, answer.properties[list]?.items)
      expect(items.required, list).toEqual(expect.arrayContaining(fields))
    }
  })
})

test('the pages of the specification are served', async () => {
  for (const url of contract.pages.filter((page) => page !== '/dashboard')) {
    expect((await service.app.inject(url)).statusCode, url).toBe(200)
  }
  expect(service.app.hasRoute({ method: 'GET', url: '/dashboard' })).toBe(true)
})

/** Where the document contains each list of values of the specification. */
const enumPlaces: Record<string, string[]> = {
  order_status: ['Order.status', 'OrderAccepted.status', 'OrderCanceled.status'],
  payment_method: ['NewOrder.payment_method', 'Order.payment_method'],
  operating_mode: ['Terminal.operating_mode', 'SetOperatingMode.operating_mode'],
  simulate_status: ['SimulatedEvent.status'],
  activity_status: ['Activity.status'],
}

function place(path: string): Schema {
  const [schema = '', field = ''] = path.split('.')
  const found = document.components.schemas[schema]?.properties?.[field]
  if (!found) throw new Error(`${path} is not described`)
  return found
}

test('every list of values equals that of the specification', () => {
  const { actions, ...lists } = contract.enums
  expect(actions?.length).toBeGreaterThan(0)
  expect(Object.keys(enumPlaces).sort()).toEqual(Object.keys(lists).sort())
  for (const [name, places] of Object.entries(enumPlaces)) {
    for (const path of places) {
      expect(place(path).enum?.toSorted(), path).toEqual(lists[name]?.toSorted())
    }
  }
  expect(place('SimulatedEvent.payment_method_type').enum).toEqual([
    'debit_card',
    'credit_card',
    'qr',
  ])
})

test('every limit equals that of the specification', () => {
  const { limits } = contract
  expect(place('NewOrder.external_reference').maxLength).toBe(limits.external_reference_chars)
  expect(place('NewOrder.description').maxLength).toBe(limits.description_chars)
  const range = ({ minimum, maximum, default: standard }: Schema) => [minimum, maximum, standard]
  expect(range(place('NewOrder.expiration_minutes'))).toEqual(limits.expiration_minutes)
  const limitOf = (path: string) => {
    const { parameters } = operationOf(document, { method: 'GET', path })
    return range(parameters?.find(({ name }) => name === 'limit')?.schema ?? {})
  }
  expect(limitOf('/terminals')).toEqual(limits.terminals)
  expect(limitOf('/admin/activity')).toEqual(limits.activity)
  expect(limitOf('/admin/webhooks/logs')).toEqual(limits.webhook_logs)
})

function operations() {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      operation,
    })),
  )
}

test('every error code is in the document and declared by a route, with its status', () => {
  const declared = new Map<string, Set<string>>()
  for (const { operation } of operations()) {
    for (const [status, { description }] of Object.entries(operation.responses)) {
      for (const [, code = ''] of description.matchAll(/`([A-Z_]+)`: /g)) {
        declared.set(code, (declared.get(code) ?? new Set()).add(status))
      }
    }
  }
  for (const [code, { status }] of Object.entries(errorCatalogue)) {
    expect(document.info.description).toContain(`| \`${code}\` | ${status} |`)
    expect([...(declared.get(code) ?? [])], code).toEqual([String(status)])
  }
  expect(declared.size).toBe(Object.keys(errorCatalogue).length)
})

test('every parameter has a description', () => {
  const silent = operations().flatMap(({ name, operation }) =>
    (operation.parameters ?? [])
      .filter((parameter) => !parameter.description)
      .map((parameter) => `${name} ${parameter.name}`),
  )
  expect(silent).toEqual([])
})

test('every body and every answer has an example', () => {
  const shows = (schema: Schema | undefined): boolean => {
    if (!schema) return false
    const { schema: found, properties } = fieldsOf(document, schema)
    if (found.example !== undefined) return true
    return [...Object.values(properties), ...(found.items ? [found.items] : [])].some(shows)
  }
  const without = operations().flatMap(({ name, operation }) => {
    const body = operation.requestBody?.content['application/json'].schema
    const answers = Object.entries(operation.responses)
      .filter(([status, answer]) => status.startsWith('2') && answer.content)
      .map(([, answer]) => Object.values(answer.content ?? {})[0]?.schema)
    return [
      ...(body && !shows(body) ? [`${name} body`] : []),
      ...(answers.every(shows) ? [] : [`${name} answer`]),
    ]
  })
  expect(without).toEqual([])
})

/** The faults of an example of this schema, as text; Redocly checks formats and patterns. */
function misfits(schema: Schema | undefined, value: unknown, path: string): string[] {
  const { schema: found, properties, required } = fieldsOf(document, schema)
  if (Array.isArray(value)) {
    return value.flatMap((item, index) => misfits(found.items, item, `${path}.${index}`))
  }
  if (found.enum && !found.enum.includes(value as string)) return [`${path} is not in its list`]
  if (value === null || typeof value !== 'object' || Object.keys(properties).length === 0) return []
  return [
    ...required.filter((name) => !(name in value)).map((name) => `${path} lacks ${name}`),
    ...Object.entries(value).flatMap(([name, field]) =>
      name in properties
        ? misfits(properties[name], field, `${path}.${name}`)
        : [`${path} has ${name}`],
    ),
  ]
}

test('every example matches its schema', () => {
  const { schemas } = document.components
  expect(
    Object.entries(schemas).flatMap(([name, schema]) =>
      schema.example === undefined ? [] : misfits(schema, schema.example, name),
    ),
  ).toEqual([])
  expect(misfits({ $ref: '#/components/schemas/Order' }, { status: 'x' }, 'Order')).toContain(
    'Order.status is not in its list',
  )
})

test('every route has a summary and an operation id of its own', () => {
  const ids = new Set(operations().map(({ operation }) => operation.operationId))
  expect(ids.size).toBe(operations().length)
  for (const { name, operation } of operations()) {
    expect(operation.summary.length, name).toBeGreaterThan(10)
    expect(operation.tags, name).toHaveLength(1)
  }
})

test('Redocly reports only what the specification itself requires', {
  tags: ['long'],
}, async () => {
  expect(await lintOpenApi(document)).toEqual([
    // Simulation is served under both forms of its path.
    expect.stringMatching(/^no-ambiguous-paths: .*simulate/),
  ])
})
