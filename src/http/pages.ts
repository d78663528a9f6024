import fastifyStatic from '@fastify/static'
import type { FastifyInstance } from 'fastify'
import { makePublic } from './access.ts'

/**
 * Serves a folder of static pages under `prefix` (such as `/dashboard`), with and without a slash at the end, so its
 * files must refer to each other by absolute paths. The content security policy is that of every answer: scripts and
 * styles in files of their own. Browsers ask again each time and get 304 while nothing changed.
 */
export function servePages(
  app: FastifyInstance,
  { root, prefix }: { root: string; prefix: string },
): void {
  app.register(async (scope) => {
    makePublic(scope)
    await scope.register(fastifyStatic, {
      root,
      prefix: `${prefix}/`,
      dotfiles: 'ignore',
      acceptRanges: false,
      cacheControl: false,
      setHeaders: (reply) => {
        reply.header('cache-control', 'no-cache')
      },
    })
    scope.get(prefix, { schema: { hide: true } }, (_request, reply) => reply.sendFile('index.html'))
  })
}
