import swagger from '@fastify/swagger'
import {
  createJsonSchemaTransform,
  createJsonSchemaTransformObject,
} from 'fastify-type-provider-zod'
import { type AccessClass, makePublic } from './access.ts'
import type { HttpServer } from './create-server.ts'
import { serveDocs } from './docs-pages.ts'
import { type JsonObject, tidyComponents } from './openapi-components.ts'
import { catalogueTable, errorResponses } from './openapi-responses.ts'
import { product } from './product.ts'

export type OpenApiOptions = {
  title: string
  /** Markdown. The list of error codes is added by itself where answers carry codes. */
  description: string
  /** Address under which clients reach this listener. */
  publicUrl: string
  tags: readonly { name: string; description: string }[]
  /** What the token of each access class is, for readers of the description. */
  tokens: { client?: string; admin: string }
}

/**
 * Publishes the listener's description as OpenAPI 3.1 at /openapi.json and as pages at /docs. Call it, awaited, before
 * the routes are added: it completes each of them with the error answers and the security of its `config.access`.
 * Routes still name their own `operationId`, `summary` and `tags`.
 */
export async function registerOpenApi(app: HttpServer, options: OpenApiOptions): Promise<void> {
  const coded = app.errorStyle === 'coded'
  const listSchemas = createJsonSchemaTransformObject({})

  app.addHook('onRoute', (route) => {
    if (route.schema?.hide) return
    route.schema = {
      ...route.schema,
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
        version: product.version,
        license: { name: product.license, identifier: product.license },
      },
      servers: [
        // First, because the policy of /docs lets its pages call only the address they came from.
        { url: '/', description: 'where this description was read' },
        { url: options.publicUrl, description: 'for clients' },
      ],
      tags: [...options.tags],
      components: { securitySchemes: securitySchemes(options.tokens) },
    },
    // Made anew for each listener: the shared one keeps what it saw first.
    transform: createJsonSchemaTransform({}),
    // An OpenAPI document is JSON; its library's type only names the fields.
    transformObject: (document) =>
      tidyComponents(listSchemas(document) as unknown as JsonObject) as ReturnType<
        typeof listSchemas
      >,
  })

  app.register(async (scope) => {
    makePublic(scope)
    let document: string | undefined
    const read = () => (document ??= JSON.stringify(app.swagger()))
    await serveDocs(scope, { title: options.title, read })
    scope.get(
      '/openapi.json',
      { config: { compressed: true }, schema: { hide: true } },
      async (_request, reply) => {
        return reply.type('application/json; charset=utf-8').send(read())
      },
    )
  })
}

function securityOf(access: AccessClass): Record<string, string[]>[] {
  if (access === 'public') return []
  return access === 'admin' ? [{ adminToken: [] }] : [{ clientKey: [] }, { adminToken: [] }]
}

function securitySchemes({ client, admin }: OpenApiOptions['tokens']) {
  const header = { type: 'apiKey', in: 'header', name: 'x-api-token' } as const
  return {
    adminToken: { ...header, description: admin },
    ...(client !== undefined && { clientKey: { ...header, description: client } }),
  }
}
