import type { FastifyRequest } from 'fastify'

/** Whether a browser sent the request: it names HTML before anything else. */
export function wantsHtml(request: FastifyRequest): boolean {
  return /\btext\/html\b/.test(request.headers.accept ?? '')
}

/** A text as the content of an HTML element or of an attribute in quotes. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`)
}
