import { fileURLToPath } from 'node:url'
import fastifyStatic from '@fastify/static'
import type { FastifyInstance } from 'fastify'

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** Headers of every page. No form-action: browsers apply it to the redirect back to the service too. */
export const pageHeaders = {
  'content-security-policy': policy,
  'referrer-policy': 'same-origin',
  'cache-control': 'no-cache',
}

/** The page of virtual terminals at / and /terminals, that of situations at /_sandbox/, their files under /page/. */
export async function pageRoutes(app: FastifyInstance): Promise<void> {
  await app.register(fastifyStatic, {
    root: fileURLToPath(new URL('./page/', import.meta.url)),
    prefix: '/page/',
    index: false,
    cacheControl: false,
  })
  app.addHook('onSend', async (_request, reply) => {
    reply.headers(pageHeaders)
  })
  for (const path of ['/', '/terminals']) {
    app.get(path, (_request, reply) => reply.sendFile('index.html'))
  }
  for (const path of ['/_sandbox', '/_sandbox/']) {
    app.get(path, (_request, reply) => reply.sendFile('situations.html'))
  }
}
