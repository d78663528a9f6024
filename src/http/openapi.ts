import swagger from '@fastify/swagger'
import type { FastifyInstance, FastifySchema, RouteOptions } from 'fastify'
import { fastifyPlugin } from 'fastify-plugin'
import {
  createJsonSchemaTransform,
  createJsonSchemaTransformObject,
  type FastifyPluginAsyncZod,
} from 'fastify-type-provider-zod'
import { z } from 'zod'
import { serveApiDocs } from './api-docs-pages.ts'
import type { Audience } from './audiences.ts'
import { buildInfo } from './build-info.ts'
import {
  type AnswerExamples,
  type ErrorExamples,
  forPage,
  type JsonObject,
  releaseBodies,
  tidyComponents,
  withExamples,
} from './openapi-document.ts'
import { catalogueTable, errorResponses, exampleErrors } from './openapi-responses.ts'

export type OpenApiOptions = {
  title: string
  /** Examples of answers whose schema has none. */
  answers: AnswerExamples
  /** Markdown. The list of error codes is added where answers have codes. */
  description: string
  /** Address under which clients reach this listener. */
  publicUrl: string
  /** `paths`: the first parts of the paths whose routes have the tag. Other routes name theirs. */
  tags: readonly { name: string; description: string; paths?: readonly string[] }[]
  /** What the token of each audience is, for readers of the description. */
  tokens: {
    client?: string
    admin: string
    metrics?: string
    /** The cookie of a person's session. */
    session?: { name: string; description: string }
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    /** What the pages of `apiDocs` say besides the document. */
    apiPages: { title: string; description: string; errors?: string }
  }
}

/**
 * Describes the routes that are added after it as OpenAPI 3.1, each with the error answers and the security of its audience.
 * Routes set their own `operationId` and `summary`.
 */
export const openApi = fastifyPlugin<OpenApiOptions>(describeRoutes, { name: 'openapi' })

async function describeRoutes(app: FastifyInstance, options: OpenApiOptions): Promise<void> {
  const coded = app.errorStyle === 'coded'
  const listSchemas = createJsonSchemaTransformObject({})

  const tagsOf = (url: string) =>
    options.tags
      .filter(({ paths }) => paths?.includes(url.split('/')[1] ?? ''))
      .map(({ name }) => name)
  const withOptionalBody = new Set<string>()
  const errorExamples: ErrorExamples = new Map()

  /** The schema of a route with what its config says: error answers, security, tags. */
  const describe = (schema: FastifySchema, url: string, route: RouteOptions): FastifySchema => {
    const { body, operationId } = schema
    if (isOptional(body) && operationId) withOptionalBody.add(operationId)
    if (operationId) errorExamples.set(operationId, () => exampleErrors(route, app.errorStyle))
    return {
      ...schema,
      tags: schema.tags ?? tagsOf(url),
      security: schema.security ?? securityOf(route.config?.audience ?? 'public'),
      response: { ...errorResponses(route, app.errorStyle), ...(schema.response as object) },
    }
  }
  // A new one for each listener: the shared one keeps what it saw first.
  const transform = createJsonSchemaTransform({})

  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: options.title,
        description: coded
          ? `${options.description}\n\n## Error codes\n\n${catalogueTable()}`
          : options.description,
        version: buildInfo.version,
        license: { name: buildInfo.license, identifier: buildInfo.license },
      },
      servers: [
        // First, because the policy of /docs lets its pages call only their own origin.
        { url: app.publicPath || '/', description: 'where this description was read' },
        { url: options.publicUrl, description: 'for clients' },
      ],
      tags: options.tags.map(({ name, description }) => ({ name, description })),
      components: { securitySchemes: securitySchemes(options.tokens) },
    },
    transform: (page) => {
      const { schema = {}, url, route } = page
      return transform(schema.hide ? page : { ...page, schema: describe(schema, url, route) })
    },
    transformObject: (document) => {
      const tidied = tidyComponents(asJson(listSchemas(document)))
      const released = releaseBodies(tidied, withOptionalBody)
      return withExamples(released, errorExamples, options.answers) as ReturnType<
        typeof listSchemas
      >
    },
  })

  app.decorate('apiPages', {
    title: options.title,
    description: options.description,
    ...(coded && { errors: catalogueTable() }),
  })
}

/** `/openapi.json`, and the same as pages at `/docs`; in a public scope. */
export const apiDocs: FastifyPluginAsyncZod = async (app) => {
  const { title, ...page } = app.apiPages
  let document: string | undefined
  const read = () => (document ??= JSON.stringify(app.swagger()))
  const readForPage = () => JSON.stringify(forPage(JSON.parse(read()), page))
  await serveApiDocs(app, { title, read: readForPage })
  app.get(
    '/openapi.json',
    { ...app.forDocument, schema: { hide: true } },
    async (_request, reply) => reply.type('application/json; charset=utf-8').send(read()),
  )
}

/** An OpenAPI document is JSON; its library's type only names the fields. */
function asJson(document: object): JsonObject {
  return document as JsonObject
}

function isOptional(body: unknown): boolean {
  return body instanceof z.ZodType && body.safeParse(undefined).success
}

function securityOf(audience: Audience): Record<string, string[]>[] {
  if (audience === 'public') return []
  if (audience === 'metrics')
    return [{ metricsToken: [] }, { metricsBearer: [] }, { adminToken: [] }]
  if (audience === 'person') return [{ session: [] }]
  return audience === 'admin' || audience === 'managers'
    ? [{ adminToken: [] }]
    : [{ clientKey: [] }, { adminToken: [] }]
}

function securitySchemes({ client, admin, metrics, session }: OpenApiOptions['tokens']) {
  const header = { type: 'apiKey', in: 'header', name: 'x-api-token' } as const
  return {
    adminToken: { ...header, description: admin },
    ...(client !== undefined && { clientKey: { ...header, description: client } }),
    ...(metrics !== undefined && {
      metricsToken: { ...header, description: metrics },
      metricsBearer: { type: 'http', scheme: 'bearer', description: metrics } as const,
    }),
    ...(session && { session: { type: 'apiKey', in: 'cookie', ...session } as const }),
  }
}
