import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { consentPage, problemPage } from './consent-page.ts'
import { oneText } from './form.ts'
import { newGrant } from './ids.ts'
import { isLoopbackName, notCrossSite } from './loopback-guard.ts'
import { pageHeaders } from './page-routes.ts'
import type { AuthorizationCode, Seller } from './rows.ts'
import { applicationOf, type Context } from './sandbox-context.ts'
import { createSeller, defaultSeller, sellerByText } from './sellers.ts'

/** How long an authorization code is valid (provider facts 1.1). */
const codeMs = 600_000

type Attempt = {
  redirectUri: string
  state: string | undefined
  challenge: string
  method: 'S256' | 'plain'
}

/**
 * GET /authorization shows the seller what the application asks for; the form's POST answers. With the header
 * `x-sandbox-consent: approve|deny` the GET redirects at once, for `x-sandbox-user` or the default account.
 */
export function consentRoutes(app: FastifyInstance, ctx: Context): void {
  app.get('/authorization', (request, reply) => {
    const attempt = readAttempt(ctx, request)
    if (typeof attempt === 'string') return html(reply, 400, problemPage(attempt))
    const consent = request.headers['x-sandbox-consent']
    if (consent === undefined) {
      const sellers = [...ctx.state.tables.sellers.values()]
      const { ownerId } = applicationOf(ctx)
      const shown = sellers.filter(({ id }) => id !== ownerId)
      return html(reply, 200, consentPage(request.url, shown, new URL(attempt.redirectUri).host))
    }
    if (consent === 'deny') return reply.redirect(denied(attempt), 302)
    if (consent !== 'approve') {
      return html(reply, 400, problemPage('x-sandbox-consent must be approve or deny'))
    }
    const named = request.headers['x-sandbox-user']
    const seller = named === undefined ? defaultSeller(ctx) : sellerByText(ctx, String(named))
    if (seller === undefined) return html(reply, 400, problemPage('x-sandbox-user is not a number'))
    return reply.redirect(approved(ctx, attempt, seller), 302)
  })

  app.post('/authorization', (request, reply) => {
    if (!notCrossSite(request)) return html(reply, 403, problemPage('Solicitud de otro sitio'))
    const attempt = readAttempt(ctx, request)
    if (typeof attempt === 'string') return html(reply, 400, problemPage(attempt))
    const decision = oneText(request.body, 'decision')
    if (decision === 'deny') return reply.redirect(denied(attempt), 303)
    if (decision !== 'approve') return html(reply, 400, problemPage('decision: approve o deny'))
    const chosen = oneText(request.body, 'user_id') ?? 'new'
    const seller = chosen === 'new' ? createSeller(ctx) : sellerByText(ctx, chosen)
    if (seller === undefined) return html(reply, 400, problemPage('user_id no es un número'))
    return reply.redirect(approved(ctx, attempt, seller), 303)
  })
}

/** The checked query, or a message about its error. Errors are shown, never redirected (RFC 6749 4.1.2.1). */
function readAttempt(ctx: Context, request: FastifyRequest): Attempt | string {
  const value = (name: string) => oneText(request.query, name)
  if (value('client_id') !== applicationOf(ctx).clientId) return 'client_id: aplicación desconocida'
  if (value('response_type') !== 'code') return 'response_type debe ser "code"'
  const platform = value('platform_id')
  if (platform !== undefined && platform !== 'mp') return 'platform_id debe ser "mp"'
  const redirectUri = value('redirect_uri')
  if (redirectUri === undefined) return 'redirect_uri falta'
  if (!redirectAllowed(ctx.redirectUris, redirectUri)) return 'redirect_uri no está registrada'
  const challenge = value('code_challenge')
  const method = value('code_challenge_method')
  if (challenge === undefined || method === undefined) {
    return 'La aplicación exige PKCE: faltan code_challenge y code_challenge_method'
  }
  const wanted = method === 'S256' ? /^[A-Za-z0-9_-]{43}$/ : /^[A-Za-z0-9._~-]{43,128}$/
  if (!['S256', 'plain', 'Plain'].includes(method) || !wanted.test(challenge)) {
    return 'code_challenge o code_challenge_method no son válidos'
  }
  return {
    redirectUri,
    state: value('state'),
    challenge,
    method: method === 'S256' ? 'S256' : 'plain',
  }
}

/** Registered addresses must match exactly. Without any, every loopback http address is allowed. */
function redirectAllowed(registered: string[], candidate: string): boolean {
  if (registered.length > 0) return registered.includes(candidate)
  if (!URL.canParse(candidate)) return false
  const url = new URL(candidate)
  return url.protocol === 'http:' && isLoopbackName(url.hostname) && url.hash === ''
}

function approved(ctx: Context, attempt: Attempt, seller: Seller): string {
  const code: AuthorizationCode = {
    code: newGrant(seller.id),
    userId: seller.id,
    clientId: applicationOf(ctx).clientId,
    redirectUri: attempt.redirectUri,
    challenge: attempt.challenge,
    method: attempt.method,
    expiresAt: ctx.nowMs() + codeMs,
    used: false,
  }
  ctx.state.commit('consent.approved', String(seller.id), { codes: { [code.code]: code } })
  return callback(attempt, { code: code.code })
}

function denied(attempt: Attempt): string {
  return callback(attempt, {
    error: 'access_denied',
    error_description: 'The user denied the request',
  })
}

function callback(attempt: Attempt, params: Record<string, string>): string {
  const url = new URL(attempt.redirectUri)
  for (const [name, value] of Object.entries(params)) url.searchParams.set(name, value)
  if (attempt.state !== undefined) url.searchParams.set('state', attempt.state)
  return url.href
}

function html(reply: FastifyReply, status: number, page: string): FastifyReply {
  return reply.code(status).headers(pageHeaders).type('text/html; charset=utf-8').send(page)
}
