import swagger from '@fastify/swagger'
import {
  createJsonSchemaTransform,
  createJsonSchemaTransformObject,
} from 'fastify-type-provider-zod'
import { z } from 'zod'
import { type AccessClass, makePublic } from './access-classes.ts'
import { serveApiDocs } from './api-docs-pages.ts'
import { buildInfo } from './build-info.ts'
import type { HttpServer } from './create-server.ts'
import {
  type ErrorExamples,
  forPage,
  type JsonObject,
  releaseBodies,
  tidyComponents,
  withExamples,
} from './openapi-document.ts'
import { catalogueTable, errorResponses, exampleErrors } from './openapi-responses.ts'

type OpenApiOptions = {
  title: string
  /** Markdown. The list of error codes is added where answers have codes. */
  description: string
  /** Address under which clients reach this listener. */
  publicUrl: string
  /** `paths`: the first parts of the paths whose routes have the tag. Other routes name theirs. */
  tags: readonly { name: string; description: string; paths?: readonly string[] }[]
  /** What the token of each access class is, for readers of the description. */
  tokens: {
    client?: string
    admin: string
    metrics?: string
    /** The cookie of a person's session. */
    session?: { name: string; description: string }
  }
}

/**
 * Publishes the listener's description as OpenAPI 3.1 at /openapi.json and as pages at /docs. Call it, awaited, before
 * the routes are added: it completes each of them with the error answers and the security of its `config.access`.
 * Routes set their own `operationId` and `summary`.
 */
export async function registerOpenApi(app: HttpServer, options: OpenApiOptions): Promise<void> {
  const coded = app.errorStyle === 'coded'
  const listSchemas = createJsonSchemaTransformObject({})

  const tagsOf = (url: string) =>
    options.tags
      .filter(({ paths }) => paths?.includes(url.split('/')[1] ?? ''))
      .map(({ name }) => name)
  const withOptionalBody = new Set<string>()
  const errorExamples: ErrorExamples = new Map()

  app.addHook('onRoute', (route) => {
    if (route.schema?.hide) return
    const { body, operationId } = route.schema ?? {}
    if (isOptional(body) && operationId) withOptionalBody.add(operationId)
    const asAdded = { ...route }
    if (operationId) errorExamples.set(operationId, () => exampleErrors(asAdded, app.errorStyle))
    route.schema = {
      ...route.schema,
      tags: route.schema?.tags ?? tagsOf(route.url),
      security: route.schema?.security ?? securityOf(route.config?.access ?? 'public'),
      response: {
        ...errorResponses(route, app.errorStyle),
        ...(route.schema?.response as object | undefined),
      },
    }
  })

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
    // A new one for each listener: the shared one keeps what it saw first.
    transform: createJsonSchemaTransform({}),
    // An OpenAPI document is JSON; its library's type only names the fields.
    transformObject: (document) => {
      const tidied = tidyComponents(listSchemas(document) as unknown as JsonObject)
      const released = releaseBodies(tidied, withOptionalBody)
      return withExamples(released, errorExamples) as ReturnType<typeof listSchemas>
    },
  })

  app.register(async (scope) => {
    makePublic(scope)
    let document: string | undefined
    const read = () => (document ??= JSON.stringify(app.swagger()))
    const readForPage = () =>
      JSON.stringify(
        forPage(JSON.parse(read()), {
          description: options.description,
          ...(coded && { errors: catalogueTable() }),
        }),
      )
    await serveApiDocs(scope, { title: options.title, read: readForPage })
    scope.get(
      '/openapi.json',
      { config: { compressed: true }, schema: { hide: true } },
      async (_request, reply) => {
        return reply.type('application/json; charset=utf-8').send(read())
      },
    )
  })
}

function isOptional(body: unknown): boolean {
  return body instanceof z.ZodType && body.safeParse(undefined).success
}

function securityOf(access: AccessClass): Record<string, string[]>[] {
  if (access === 'public') return []
  if (access === 'metrics') return [{ metricsToken: [] }, { adminToken: [] }]
  if (access === 'person') return [{ session: [] }]
  return access === 'admin' || access === 'managers'
    ? [{ adminToken: [] }]
    : [{ clientKey: [] }, { adminToken: [] }]
}

function securitySchemes({ client, admin, metrics, session }: OpenApiOptions['tokens']) {
  const header = { type: 'apiKey', in: 'header', name: 'x-api-token' } as const
  return {
    adminToken: { ...header, description: admin },
    ...(client !== undefined && { clientKey: { ...header, description: client } }),
    ...(metrics !== undefined && { metricsToken: { ...header, description: metrics } }),
    ...(session && { session: { type: 'apiKey', in: 'cookie', ...session } as const }),
  }
}
