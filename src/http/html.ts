import type { FastifyRequest } from 'fastify'

/** Whether a browser sent the request: it names HTML before anything else. */
export function wantsHtml(request: FastifyRequest): boolean {
  return /\btext\/html\b/.test(request.headers.accept ?? '')
}
