import type { FastifyRequest } from 'fastify'

/** Whether a browser sent the request: it names HTML before anything else. */
export function wantsHtml(request: FastifyRequest): boolean {
  return /\btext\/html\b/.test(request.headers.accept ?? '')
}

const signs: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
}

/** The text as it stands in HTML, between tags and in double quotes. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => signs[sign] ?? sign)
}
