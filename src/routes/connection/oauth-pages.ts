import type { FastifyRequest } from 'fastify'
import { preferredLanguage } from '../../domain/language.ts'
import type { AppError } from '../../errors/app-error.ts'
import { escapeHtml } from '../../http/escape-html.ts'
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

/** The page for the shop owner who returns from the provider: the account is connected. */
export function connectedPage(request: FastifyRequest, client: string): string {
  return pageFor(request, connectedText, { extra: small(isolated(client)) })
}

/** The page of an invitation: which shop asks for the account, and the button that starts the login. */
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
 * Leads to the provider without a redirect: browsers check the redirects after a form against `form-action`, and the hosts of the
 * provider's consent page are not known here.
 */
export function onTheWayPage(request: FastifyRequest, url: string): string {
  const language = preferredLanguage(request.headers['accept-language'])
  const target = escapeHtml(url)
  return pageFor(request, onTheWayText, {
    head: `<meta http-equiv="refresh" content="0; url=${target}">\n`,
    extra: `<p><a class="button main" href="${target}">${continueText[language]}</a></p>`,
  })
}

/** The page that explains why the account is not connected and what to do; undefined for programs. */
export function failurePage(failure: AppError, request: FastifyRequest): string | undefined {
  if (!wantsHtml(request)) return undefined
  const language = preferredLanguage(request.headers['accept-language'])
  // With this id the support finds the request in the log.
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
  // Addresses are relative to `/oauth/…`: a proxy may add a path before it.
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

/** A name from outside, which must not change the direction of the surrounding text. */
function isolated(text: string): string {
  return `<bdi>${escapeHtml(text)}</bdi>`
}
