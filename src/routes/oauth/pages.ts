import type { FastifyReply, FastifyRequest } from 'fastify'

/** Whether a person is looking: a browser names HTML before anything else. */
export function wantsHtml(request: FastifyRequest): boolean {
  return /\btext\/html\b/.test(request.headers.accept ?? '')
}

/** A short page in Spanish and English for the shop owner who comes back from the provider. */
export function sendPage(
  reply: FastifyReply,
  status: number,
  texts: { es: string; en: string },
): FastifyReply {
  const html = `<!doctype html>
<html lang="es">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>tillbridge</title>
<main>
<h1>${escapeHtml(texts.es)}</h1>
<p lang="en">${escapeHtml(texts.en)}</p>
</main>
</html>
`
  return reply.code(status).type('text/html; charset=utf-8').send(html)
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`)
}
