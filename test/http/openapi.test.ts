import { brotliDecompressSync } from 'node:zlib'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { errorCatalogue } from '../../src/errors/app-error.ts'
import type { Audience } from '../../src/http/audiences.ts'
import { createServer, type HttpServer } from '../../src/http/create-server.ts'
import { lists } from '../../src/http/lists.ts'
import { apiDocs, openApi } from '../../src/http/openapi.ts'
import { tidyComponents } from '../../src/http/openapi-document.ts'
import { lintOpenApi } from './lint-openapi.ts'

type Response = {
  description: string
  content?: { 'application/json': { schema: { $ref?: string } } }
}
type Operation = {
  security: object[]
  responses: Record<string, Response>
  requestBody?: { required: boolean; content: { 'application/json': { schema: unknown } } }
}
type Document = {
  openapi: string
  info: { version: string; description: string }
  servers: { url: string }[]
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, unknown>; securitySchemes: object }
}

const Place = z.strictObject({ latitude: z.number() }).meta({ id: 'HttpTestPlace' })
const Options = z
  .strictObject({ print: z.boolean().default(false) })
  .meta({ id: 'HttpTestOptions' })
const Item = z
  .object({ id: z.string(), place: Place, options: Options, note: z.string().nullable() })
  .meta({ id: 'HttpTestItem' })

/** A scope of an audience, without its guard. */
const scopeOf = (app: HttpServer, audience: Audience, add: FastifyPluginAsyncZod) =>
  app.register(async (scope) => {
    scope.decorate('audience', audience)
    await scope.register(add)
  })

async function paymentLike(): Promise<HttpServer> {
  const app = createServer({ logger: false })
  await app.register(lists, { ownerOf: () => 'all' })
  await app.register(openApi, {
    title: 'Payment API',
    description: 'Two routes.',
    answers: {},
    publicUrl: 'https://pay.shop.test',
    tags: [{ name: 'items', description: 'Things' }],
    tokens: { client: 'API key of a client', admin: 'Administrator token' },
  })
  await scopeOf(app, 'client', async (scope) => {
    scope.post(
      '/items',
      {
        config: {
          money: { retrySafeWhenUnknown: true },
          errors: ['TERMINAL_BUSY', 'ORDER_ALREADY_PAID', 'REFUND_AMOUNT_EXCEEDS'],
        },
        schema: {
          operationId: 'createItem',
          summary: 'Makes an item',
          tags: ['items'],
          body: z.strictObject({ place: Place, options: Options.optional() }),
          response: { 201: Item },
        },
      },
      async (request, reply) =>
        reply.code(201).send({
          id: '1',
          place: request.body.place,
          options: request.body.options ?? { print: false },
          note: null,
        }),
    )
  })
  await scopeOf(app, 'admin', async (scope) => {
    scope.get(
      '/items/:id',
      {
        schema: {
          operationId: 'getItem',
          summary: 'Reads an item',
          tags: ['items'],
          params: z.strictObject({ id: z.string() }),
          response: { 200: Item, 404: z.object({ own: z.string() }) },
        },
      },
      async () =>
        JSON.parse('{"id":"1","place":{"latitude":1},"options":{"print":true},"note":null}'),
    )
  })
  await scopeOf(app, 'public', async (scope) => {
    scope.get(
      '/health',
      {
        schema: {
          operationId: 'getHealth',
          summary: 'Answers that it runs',
          tags: ['items'],
          response: { 200: z.object({ status: z.literal('ok') }) },
        },
      },
      async () => ({ status: 'ok' as const }),
    )
    await scope.register(apiDocs)
  })
  return app
}

async function controlLike(): Promise<HttpServer> {
  const app = createServer({ logger: false, errorStyle: 'plain' })
  await app.register(lists, { ownerOf: () => 'all' })
  await app.register(openApi, {
    title: 'Control API',
    description: 'One route.',
    answers: {},
    publicUrl: 'http://127.0.0.1:8080',
    tags: [{ name: 'flows', description: 'Flows' }],
    tokens: { admin: 'SYNC_TOKEN' },
  })
  await scopeOf(app, 'admin', async (scope) => {
    scope.post(
      '/flow/:name/limit/:count',
      {
        config: { errors: ['NOT_FOUND'] },
        schema: {
          operationId: 'limitFlow',
          summary: 'Limits a flow',
          tags: ['flows'],
          params: z.strictObject({ name: z.string(), count: z.string() }),
          response: { 200: z.object({ name: z.string() }).meta({ id: 'HttpTestFlow' }) },
        },
      },
      async (request) => ({ name: request.params.name }),
    )
  })
  await scopeOf(app, 'admin', async (scope) => {
    scope.post(
      '/flow/:name/pause',
      {
        schema: {
          operationId: 'pauseFlow',
          summary: 'Pauses a flow',
          tags: ['flows'],
          params: z.strictObject({ name: z.string() }),
          body: z.strictObject({ reason: z.string() }).optional(),
          response: { 200: z.object({ name: z.string() }) },
        },
      },
      async (request) => ({ name: request.params.name }),
    )
  })
  await scopeOf(app, 'public', async (scope) => {
    scope.get(
      '/page',
      {
        config: { errorPage: () => '<!doctype html>' },
        schema: {
          operationId: 'showPage',
          summary: 'A page for people',
          tags: ['flows'],
          response: { 200: z.string() },
        },
      },
      async () => 'x',
    )
    await scope.register(apiDocs)
  })
  return app
}

async function documentOf(app: HttpServer): Promise<Document> {
  const answer = await app.inject({ method: 'GET', url: '/openapi.json' })
  expect(answer.statusCode).toBe(200)
  expect(answer.headers['content-type']).toMatch(/^application\/json/)
  return answer.json()
}

const payment = await paymentLike()
const control = await controlLike()
const description = await documentOf(payment)
const controlDescription = await documentOf(control)

test('both listeners publish OpenAPI 3.1 that Redocly finds nothing to say about', {
  tags: ['long'],
}, async () => {
  expect(description.openapi).toBe('3.1.0')
  expect(await lintOpenApi(description)).toEqual([])
  expect(await lintOpenApi(controlDescription)).toEqual([])
  const broken = structuredClone(description)
  Object.assign(broken.paths['/health']?.get ?? {}, { summary: undefined })
  expect(await lintOpenApi(broken)).toEqual([expect.stringContaining('operation-summary')])
})

test('the description has the closed list of codes with their statuses', () => {
  for (const [code, { status }] of Object.entries(errorCatalogue)) {
    expect(description.info.description).toContain(`| \`${code}\` | ${status} |`)
  }
  expect(controlDescription.info.description).toBe('One route.')
  expect(description.servers.map(({ url }) => url)).toEqual(['/', 'https://pay.shop.test'])
})

test('each route declares who may call it', () => {
  const { paths } = description
  expect(paths['/items']?.post?.security).toEqual([{ clientKey: [] }, { adminToken: [] }])
  expect(paths['/items/{id}']?.get?.security).toEqual([{ adminToken: [] }])
  expect(paths['/health']?.get?.security).toEqual([])
  expect(Object.keys(paths).sort()).toEqual(['/health', '/items', '/items/{id}'])
})

test('each route lists the errors of its audience, of its schemas, and its own, by status', () => {
  const responses = description.paths['/items']?.post?.responses ?? {}
  expect(Object.keys(responses)).toEqual([
    '201',
    '400',
    '401',
    '403',
    '404',
    '408',
    '409',
    '413',
    '415',
    '422',
    '429',
    '500',
    '503',
  ])
  expect(responses['409']?.description).toContain('TERMINAL_BUSY')
  expect(responses['409']?.description).toContain('ORDER_ALREADY_PAID')
  expect(responses['422']?.description).toContain('REFUND_AMOUNT_EXCEEDS')
  expect(responses['422']?.content?.['application/json'].schema).toEqual({
    $ref: '#/components/schemas/ErrorBody',
  })
  const health = description.paths['/health']?.get?.responses ?? {}
  // Broken text is refused in a query that the route does not read, too.
  expect(Object.keys(health)).toEqual(['200', '400', '422', '429', '500', '503'])
  const read = description.paths['/items/{id}']?.get?.responses ?? {}
  expect(read['422']?.content?.['application/json'].schema.$ref).toBe(
    '#/components/schemas/ValidationErrorBody',
  )
  expect(read['404']?.content?.['application/json'].schema).not.toHaveProperty('$ref')
})

test('a schema appears once under its own name, twice only where a default makes both differ', () => {
  expect(Object.keys(description.components.schemas)).toEqual([
    'ErrorBody',
    'HttpTestItem',
    'HttpTestOptions',
    'HttpTestOptionsInput',
    'HttpTestPlace',
    'ValidationErrorBody',
  ])
  const body = JSON.stringify(description.paths['/items']?.post?.requestBody)
  expect(body).toContain('#/components/schemas/HttpTestPlace"')
  expect(body).toContain('#/components/schemas/HttpTestOptionsInput"')
})

test('a listener does not show the schemas of the other', () => {
  expect(Object.keys(controlDescription.components.schemas)).toEqual([
    'HttpTestFlow',
    'PlainErrorBody',
  ])
})

test('the control API documents its plain errors, 400 in place of 422', () => {
  const responses = controlDescription.paths['/flow/{name}/limit/{count}']?.post?.responses ?? {}
  // A body that is too long, slow or of another type is refused where none is expected, too.
  const ofBodies = ['408', '413', '415']
  expect(Object.keys(responses)).toEqual(
    ['200', '400', '401', '403', '404', '429', '500', '503', ...ofBodies].sort(),
  )
})

test('a body that may be left out is not called required', () => {
  expect(controlDescription.paths['/flow/{name}/pause']?.post?.requestBody?.required).toBe(false)
  expect(description.paths['/items']?.post?.requestBody?.required).toBe(true)
})

test('a route that shows errors as a page lists the page beside the error body', () => {
  const responses = controlDescription.paths['/page']?.get?.responses ?? {}
  for (const status of ['400', '500', '503']) {
    expect(Object.keys(responses[status]?.content ?? {}), status).toEqual([
      'application/json',
      'text/html',
    ])
  }
})

test('documenting the errors leaves the answers as they are', async () => {
  const made = await payment.inject({
    method: 'POST',
    url: '/items',
    payload: { place: { latitude: 1 } },
  })
  expect([made.statusCode, made.json().options]).toEqual([201, { print: false }])
  const refused = await payment.inject({ method: 'POST', url: '/items', payload: { place: {} } })
  expect([refused.statusCode, refused.json().outcome]).toEqual([422, 'not_charged'])
})

test('an input whose parts differ from the output keeps a name of its own', () => {
  const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` })
  const tidy = tidyComponents({
    paths: { in: ref('OuterInput'), out: ref('Outer'), only: ref('AloneInput') },
    components: {
      securitySchemes: { kept: true },
      schemas: {
        Outer: { properties: { part: ref('Part') } },
        OuterInput: { properties: { part: ref('PartInput') } },
        Part: { required: ['a'] },
        PartInput: {},
        Alone: { a: 1 },
        AloneInput: { a: 2 },
        Unused: {},
        UnusedInput: {},
      },
    },
  })
  expect(tidy).toEqual({
    paths: { in: ref('OuterInput'), out: ref('Outer'), only: ref('Alone') },
    components: {
      securitySchemes: { kept: true },
      schemas: {
        Outer: { properties: { part: ref('Part') } },
        OuterInput: { properties: { part: ref('PartInput') } },
        Part: { required: ['a'] },
        PartInput: {},
        Alone: { a: 2 },
      },
    },
  })
})

test('what weighs at /docs comes compressed, and is not sent again while it is the same', {
  tags: ['long'],
}, async () => {
  for (const file of ['json', 'static/swagger-ui-bundle.js', 'static/swagger-ui.css']) {
    const url = `/docs/${file}`
    const plain = await payment.inject({ method: 'GET', url })
    const packed = await payment.inject({
      method: 'GET',
      url,
      headers: { 'accept-encoding': 'gzip, br' },
    })
    expect([file, packed.headers['content-encoding'], packed.headers['content-type']]).toEqual([
      file,
      'br',
      plain.headers['content-type'],
    ])
    expect(brotliDecompressSync(packed.rawPayload).equals(plain.rawPayload)).toBe(true)
    expect(packed.rawPayload.length).toBeLessThan(plain.rawPayload.length / 3)
    const again = await payment.inject({
      method: 'GET',
      url,
      headers: { 'if-none-match': String(packed.headers.etag) },
    })
    expect([again.statusCode, again.body]).toEqual([304, ''])
  }
  const shown = (await payment.inject({ method: 'GET', url: '/docs/json' })).json()
  const whole = (await payment.inject({ method: 'GET', url: '/openapi.json' })).json()
  expect(Object.keys(shown.paths)).toEqual(Object.keys(whole.paths))
})

test('T39: the pages at /docs work under the strict policy: nothing inline, nothing foreign', {
  tags: ['long'],
}, async () => {
  for (const url of ['/docs', '/docs/']) {
    const page = await payment.inject({ method: 'GET', url })
    expect(page.statusCode).toBe(200)
    const policy = String(page.headers['content-security-policy'])
    expect(policy).toContain("default-src 'none'")
    expect(policy).not.toMatch(/unsafe|https?:|upgrade-insecure-requests|validator/)
    expect(page.body).not.toMatch(/<style|style=|<script>| on[a-z]+=/)
    const files = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1] ?? '')
    expect(files.length).toBeGreaterThan(4)
    for (const file of files) {
      const { pathname, origin } = new URL(file, 'http://x/docs/')
      expect(origin).toBe('http://x')
      expect((await payment.inject({ method: 'GET', url: pathname })).statusCode).toBe(200)
    }
  }
  const start = await payment.inject({ method: 'GET', url: '/docs/static/swagger-initializer.js' })
  expect(start.body).toContain('BaseLayout')
  expect(start.body).not.toContain('validator.swagger.io')
})
