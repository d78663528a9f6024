import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import { createTextSender } from './cached-text.ts'

const prefix = '/docs'
const installed = fileURLToPath(new URL('static/', import.meta.resolve('@fastify/swagger-ui')))

/** The large files: 2.1 MB, which would be sent uncompressed each time the page opens. */
const heavy: Record<string, string> = {
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'swagger-ui-standalone-preset.js': 'text/javascript; charset=utf-8',
  'swagger-ui.css': 'text/css; charset=utf-8',
}

/** Serves the description that `read` returns as pages at /docs, in a public scope. Its large parts are compressed once. */
export async function serveApiDocs(
  scope: FastifyInstance,
  { title, read }: { title: string; read: () => string },
): Promise<void> {
  const sendDocument = createTextSender('application/json; charset=utf-8', read)
  await scope.register(swaggerUi, {
    routePrefix: prefix,
    theme: { title },
    // The default validator is an external service that would receive the address of this one. BaseLayout: the top bar
    // would set an inline style, which the policy refuses. Groups are closed at first, since a page that draws more than a
    // hundred operations takes seconds for each click. The filter finds a group by its name.
    uiConfig: {
      ...{ validatorUrl: null, deepLinking: true, layout: 'BaseLayout' },
      ...{ docExpansion: 'none', filter: true },
    },
    uiHooks: {
      // The page reads the description here and nowhere else.
      preHandler: async (request, reply) => {
        if (request.routeOptions.url !== `${prefix}/json`) return
        const body = await sendDocument(request, reply)
        return reply.sent ? reply : reply.send(body)
      },
    },
  })
  for (const [file, type] of Object.entries(heavy)) {
    const send = createTextSender(type, () => readFileSync(join(installed, file), 'utf8'))
    scope.get(`${prefix}/static/${file}`, { schema: { hide: true } }, send)
  }
}
