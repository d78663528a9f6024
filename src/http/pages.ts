import { fileURLToPath } from 'node:url'
import fastifyStatic from '@fastify/static'
import type { FastifyInstance } from 'fastify'
import { makePublic } from './access.ts'

type Folder = { root: string; prefix: string }

/**
 * Serves a folder of static pages under `prefix` (such as `/dashboard`), with and without a slash at the end, so its
 * files must refer to each other by absolute paths. The content security policy is that of every answer: scripts and
 * styles in files of their own. Browsers ask again each time and get 304 while nothing changed.
 */
export function servePages(app: FastifyInstance, { root, prefix }: Folder): void {
  app.register(async (scope) => {
    await serveFiles(scope, { root, prefix })
    scope.get(prefix, { schema: { hide: true } }, (_request, reply) => reply.sendFile('index.html'))
  })
}

/** Serves under `/shared` what the pages of both listeners are made of. */
export function serveSharedParts(app: FastifyInstance): void {
  const root = fileURLToPath(new URL('../../public/shared', import.meta.url))
  app.register((scope) => serveFiles(scope, { root, prefix: '/shared' }))
}

async function serveFiles(scope: FastifyInstance, { root, prefix }: Folder): Promise<void> {
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
}
