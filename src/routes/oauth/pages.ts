import type { FastifyRequest } from 'fastify'
import { preferredLanguage } from '../../domain/language.ts'
import type { AppError } from '../../errors.ts'
import { wantsHtml } from '../../http/html.ts'
import { connectedText, failureText, type PageText, requestIdText } from './page-texts.ts'

/** Tells the shop owner who comes back from the provider that all is done. */
export function connectedPage(request: FastifyRequest, client: string): string {
  return pageFor(request, connectedText, { isGood: true, extra: isolated(client) })
}

/** Tells a person in a browser why the account is not connected and what to do; undefined for programs. */
export function failurePage(failure: AppError, request: FastifyRequest): string | undefined {
  if (!wantsHtml(request)) return undefined
  const language = preferredLanguage(request.headers['accept-language'])
  // Whoever is asked for help finds the request in the log by this.
  const extra = `${requestIdText[language]} <code>${escapeHtml(request.id)}</code>`
  return pageFor(request, failureText(failure.code), { isGood: false, extra })
}

function pageFor(
  request: FastifyRequest,
  texts: PageText,
  { isGood, extra }: { isGood: boolean; extra: string },
): string {
  const language = preferredLanguage(request.headers['accept-language'])
  const [title, advice] = texts[language].map(escapeHtml)
  return `<!doctype html>
<html lang="${language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>${title} · tillbridge</title>
<link rel="icon" href="/shared/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/shared/css/base.css">
<link rel="stylesheet" href="/shared/css/message.css">
</head>
<body>
<main class="message ${isGood ? 'good' : 'bad'}">
<p class="soft strong">tillbridge</p>
<h1>${title}</h1>
<p>${advice}</p>
<p class="soft small">${extra}</p>
</main>
</body>
</html>
`
}

/** A name from outside, which must not change the direction of the text around it. */
function isolated(text: string): string {
  return `<bdi>${escapeHtml(text)}</bdi>`
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`)
}
