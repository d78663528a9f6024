import type { FastifyRequest } from 'fastify'
import type { AppError, ErrorCode } from '../../errors/app-error.ts'
import { escapeHtml, wantsHtml } from '../../http/html.ts'
import { preferredLanguage } from '../../texts/language.ts'
import { isTextKey, type TextKey, textIn } from '../../texts/texts.ts'

/** A page has a title, and what to do. */
type Page =
  Extract<TextKey, `connect.${string}.title`> extends `connect.${infer Name}.title` ? Name : never

/** The page for the shop owner who returns from the provider: the account is connected. */
export function connectedPage(request: FastifyRequest, client: string): string {
  return pageFor(request, 'connected', { extra: small(isolated(client)) })
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
  return pageFor(request, 'invited', {
    extra: `<p class="strong">${isolated(fields.client)}</p>
<form method="post" action="invitation">
${inputs.join('\n')}
<button class="button main" type="submit">${textIn(language, 'connect.continue')}</button>
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
  return pageFor(request, 'on_the_way', {
    head: `<meta http-equiv="refresh" content="0; url=${target}">\n`,
    extra: `<p><a class="button main" href="${target}">${textIn(language, 'connect.continue')}</a></p>`,
  })
}

/** The page that explains why the account is not connected and what to do; undefined for programs. */
export function failurePage(failure: AppError, request: FastifyRequest): string | undefined {
  if (!wantsHtml(request)) return undefined
  const language = preferredLanguage(request.headers['accept-language'])
  // With this id the support finds the request in the log.
  const extra = small(
    `${textIn(language, 'connect.request_id')} <code>${escapeHtml(request.id)}</code>`,
  )
  return pageFor(request, failedPage(failure.code), { tone: 'bad', extra })
}

const pages: Partial<Record<ErrorCode, Page>> = {
  VALIDATION_ERROR: 'bad_link',
  BAD_REQUEST: 'bad_link',
  PROVIDER_REJECTED: 'provider_failed',
  PROVIDER_ERROR: 'provider_failed',
  PROVIDER_TIMEOUT: 'provider_failed',
}

function failedPage(code: ErrorCode): Page {
  const hasOwn = (one: string): one is Page => isTextKey(`connect.${one}.title`)
  return pages[code] ?? (hasOwn(code) ? code : 'unavailable')
}

function small(html: string): string {
  return `<p class="soft small">${html}</p>`
}

function pageFor(
  request: FastifyRequest,
  page: Page,
  { tone = 'good', head = '', extra }: { tone?: 'good' | 'bad'; head?: string; extra: string },
): string {
  const language = preferredLanguage(request.headers['accept-language'])
  // Addresses are relative to `/oauth/…`: a proxy may add a path before it.
  const title = escapeHtml(textIn(language, `connect.${page}.title`))
  const advice = escapeHtml(textIn(language, `connect.${page}.advice`))
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
