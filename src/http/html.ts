import type { FastifyRequest } from 'fastify'

/** Whether a person is looking: a browser names HTML before anything else. */
export function wantsHtml(request: FastifyRequest): boolean {
  return /\btext\/html\b/.test(request.headers.accept ?? '')
}
