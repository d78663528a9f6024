import type { FastifyRequest } from 'fastify'
import { preferredLanguage } from '../../domain/language.ts'
import type { AppError } from '../../errors/app-error.ts'
import { wantsHtml } from '../../http/html.ts'
import {
  connectedText,
  continueText,
  failureText,
  invitedText,
  onTheWayText,
  type PageText,
  requestIdText,
} from './oauth-page-texts.ts'

/** Tells the shop owner who comes back from the provider that all is done. */
export function connectedPage(request: FastifyRequest, client: string): string {
  return pageFor(request, connectedText, { extra: small(isolated(client)) })
}

/** Shows the invited one which shop asks for his account, with the button that begins. */
export function invitationPage(
  request: FastifyRequest,
  fields: { client: string; invitation: string; target_url?: string | undefined },
): string {
  const language = preferredLanguage(request.headers['accept-language'])
  const inputs = Object.entries(fields)
    .filter((field): field is [string, string] => field[1] !== undefined)
    .map(([name, value]) => `<input type="hidden" name="${name}" value="${escapeHtml(value)}">`)
  return pageFor(request, invitedText, {
    extra: `<p class="strong">${isolated(fields.client)}</p>
<form method="post" action="invitation">
${inputs.join('\n')}
<button class="button main" type="submit">${continueText[language]}</button>
</form>`,
  })
}

/**
 * Leads on to the provider. Not by a redirect: browsers hold the redirects that follow a form against `form-action`, and
 * which hosts the provider's consent page goes through is not ours to know.
 */
export function onTheWayPage(request: FastifyRequest, url: string): string {
  const language = preferredLanguage(request.headers['accept-language'])
  const target = escapeHtml(url)
  return pageFor(request, onTheWayText, {
    head: `<meta http-equiv="refresh" content="0; url=${target}">\n`,
    extra: `<p><a class="button main" href="${target}">${continueText[language]}</a></p>`,
  })
}

/** Tells a person in a browser why the account is not connected and what to do; undefined for programs. */
export function failurePage(failure: AppError, request: FastifyRequest): string | undefined {
  if (!wantsHtml(request)) return undefined
  const language = preferredLanguage(request.headers['accept-language'])
  // Whoever is asked for help finds the request in the log by this.
  const extra = small(`${requestIdText[language]} <code>${escapeHtml(request.id)}</code>`)
  return pageFor(request, failureText(failure.code), { tone: 'bad', extra })
}

function small(html: string): string {
  return `<p class="soft small">${html}</p>`
}

function pageFor(
  request: FastifyRequest,
  texts: PageText,
  { tone = 'good', head = '', extra }: { tone?: 'good' | 'bad'; head?: string; extra: string },
): string {
  const language = preferredLanguage(request.headers['accept-language'])
  // Addresses are relative to `/oauth/…`: a proxy may put a path before it.
  const [title, advice] = texts[language].map(escapeHtml)
  return `<!doctype html>
<html lang="${language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
${head}<title>${title} · tillbridge</title>
<link rel="icon" href="../shared/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="../shared/css/base.css">
<link rel="stylesheet" href="../shared/css/parts.css">
<link rel="stylesheet" href="../shared/css/message.css">
</head>
<body>
<main class="message ${tone}">
<p class="soft strong">tillbridge</p>
<h1>${title}</h1>
<p>${advice}</p>
${extra}
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
