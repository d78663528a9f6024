import { createHash, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type ApiError, apiError } from './errors.ts'
import { newAccessToken, newGrant } from './ids.ts'
import type { Change, Seller } from './rows.ts'
import { applicationOf, type Context } from './sandbox-context.ts'
import { isRecord } from './validation-errors.ts'

const accessSeconds = 180 * 86_400
const clientCredentialsSeconds = 6 * 3600
const refreshMs = 183 * 86_400_000
const allScopes = ['offline_access', 'read', 'write']
const known = new Set(
  'client_id client_secret grant_type code redirect_uri code_verifier refresh_token test_token scope'.split(
    ' ',
  ),
)

const usedGrant =
  'Error validating grant. Your authorization code or refresh token may be expired or it was already used.'

type TokenFields = Map<string, string>

/** POST /oauth/token (provider facts 1.2): JSON or form, all fields in the body, unknown fields refused. */
export function tokenRoute(app: FastifyInstance, ctx: Context): void {
  app.post('/oauth/token', (request) => {
    const fields = readFields(request)
    const grantType = required(fields, 'grant_type')
    checkClient(ctx, fields)
    const scope = readScope(fields)
    switch (grantType) {
      case 'authorization_code':
        return exchangeCode(ctx, fields, scope)
      case 'refresh_token':
        return refresh(ctx, fields)
      case 'client_credentials':
        return ownToken(ctx, scope)
      default:
        throw apiError(400, 'unsupported_grant_type', 'grant_type is not supported')
    }
  })
}

function invalidRequest(message: string): ApiError {
  return apiError(400, 'invalid_request', message)
}

function invalidGrant(message = usedGrant): ApiError {
  return apiError(400, 'invalid_grant', message)
}

function readFields(request: FastifyRequest): TokenFields {
  if (request.url.includes('?')) throw invalidRequest('parameters belong into the body')
  const { body } = request
  if (!isRecord(body)) throw invalidRequest('the body is required')
  const fields: TokenFields = new Map()
  for (const [key, value] of Object.entries(body)) {
    if (!known.has(key)) throw invalidRequest(`${key} is not a supported parameter`)
    const text = key === 'test_token' && typeof value === 'boolean' ? String(value) : value
    if (Array.isArray(text)) throw invalidRequest(`${key} is duplicated`)
    if (typeof text !== 'string') throw invalidRequest(`${key} must be a string`)
    fields.set(key, text)
  }
  const test = fields.get('test_token')
  if (test !== undefined && test !== 'true' && test !== 'false') {
    throw invalidRequest('test_token must be true or false')
  }
  return fields
}

function required(fields: TokenFields, name: string): string {
  const value = fields.get(name)
  if (value === undefined || value === '') throw invalidRequest(`${name} is a required parameter`)
  return value
}

function checkClient(ctx: Context, fields: TokenFields): void {
  const id = required(fields, 'client_id')
  const secret = required(fields, 'client_secret')
  const { clientId, clientSecret } = applicationOf(ctx)
  if (!same(id, clientId) || !same(secret, clientSecret)) {
    throw apiError(400, 'invalid_client', 'invalid client_id or client_secret')
  }
}

function readScope(fields: TokenFields): string {
  const scope = fields.get('scope') ?? allScopes.join(' ')
  if (!scope.split(' ').every((part) => allScopes.includes(part))) {
    throw apiError(400, 'invalid_scope', 'the scope must be of offline_access, read, write')
  }
  return scope
}

/** A code is valid for ten minutes, once, for this client and redirect_uri, with the verifier. */
function exchangeCode(ctx: Context, fields: TokenFields, scope: string): object {
  const text = required(fields, 'code')
  const redirectUri = required(fields, 'redirect_uri')
  const verifier = required(fields, 'code_verifier')
  if (!/^[A-Za-z0-9._~-]{43,128}$/.test(verifier)) {
    throw invalidRequest('code_verifier must have from 43 to 128 unreserved characters')
  }
  const code = ctx.state.tables.codes.get(text)
  if (
    code === undefined ||
    code.used ||
    code.expiresAt <= ctx.nowMs() ||
    code.clientId !== fields.get('client_id')
  ) {
    throw invalidGrant()
  }
  if (code.redirectUri !== redirectUri) throw invalidGrant('redirect_uri does not match')
  const challenge =
    code.method === 'plain' ? verifier : createHash('sha256').update(verifier).digest('base64url')
  if (!same(challenge, code.challenge)) throw invalidGrant('code_verifier does not match')
  const seller = ctx.state.tables.sellers.get(String(code.userId))
  if (seller === undefined) throw invalidGrant()
  return grantTokens(ctx, seller, scope, { codes: { [text]: { ...code, used: true } } })
}

/** The tokens that an authorization of the seller gives; `more` is written in the same line. */
export function grantTokens(
  ctx: Context,
  seller: Seller,
  scope = allScopes.join(' '),
  more: Change = {},
) {
  const { body, change } = issue(ctx, seller, scope)
  ctx.state.commit('token.issued', String(seller.id), {
    ...change,
    ...more,
    sellers: { [seller.id]: { ...seller, revoked: false } },
  })
  return body
}

/** The old refresh token works once: its end and the new pair are one effect. */
function refresh(ctx: Context, fields: TokenFields): object {
  const text = required(fields, 'refresh_token')
  const token = ctx.state.tables.refreshTokens.get(text)
  if (token === undefined || token.clientId !== fields.get('client_id')) throw invalidGrant()
  const seller = ctx.state.tables.sellers.get(String(token.userId))
  if (seller === undefined) throw invalidGrant()
  if (seller.revoked) {
    throw apiError(400, 'unauthorized_client', 'there is no grant between application and user')
  }
  if (token.used || token.expiresAt <= ctx.nowMs()) throw invalidGrant()
  const { body, change } = issue(ctx, seller, token.scope)
  ctx.state.commit('token.refreshed', String(seller.id), {
    ...change,
    refreshTokens: { ...change.refreshTokens, [text]: { ...token, used: true } },
  })
  return body
}

/** `client_credentials`: six hours, the application's own account, no refresh token. */
function ownToken(ctx: Context, scope: string): object {
  const owner = ctx.state.tables.sellers.get(String(applicationOf(ctx).ownerId))
  if (owner === undefined) throw invalidGrant()
  const { body, change } = issue(ctx, owner, scope, clientCredentialsSeconds)
  ctx.state.commit('token.issued', String(owner.id), { accessTokens: change.accessTokens ?? {} })
  const { refresh_token: _none, ...rest } = body
  return rest
}

function issue(ctx: Context, seller: Seller, scope: string, seconds = accessSeconds) {
  const now = ctx.nowMs()
  const { clientId } = applicationOf(ctx)
  const access = newAccessToken(clientId, seller.id, now)
  const renewal = newGrant(seller.id)
  const withRefresh =
    scope.split(' ').includes('offline_access') && !ctx.withoutRefresh.has(seller.id)
  const change: Change = {
    accessTokens: {
      [access]: {
        token: access,
        userId: seller.id,
        expiresAt: now + seconds * 1000,
        revoked: false,
      },
    },
    ...(withRefresh && {
      refreshTokens: {
        [renewal]: {
          token: renewal,
          userId: seller.id,
          clientId,
          expiresAt: now + refreshMs,
          used: false,
          scope,
        },
      },
    }),
  }
  const body = {
    access_token: access,
    token_type: 'Bearer',
    expires_in: seconds,
    scope,
    user_id: seller.id,
    ...(withRefresh && { refresh_token: renewal }),
    public_key: seller.publicKey,
    live_mode: seller.liveMode,
  }
  return { body: body as typeof body & { refresh_token?: string }, change }
}

function same(a: string, b: string): boolean {
  const [left, right] = [a, b].map((text) => createHash('sha256').update(text).digest())
  return left !== undefined && right !== undefined && timingSafeEqual(left, right)
}
