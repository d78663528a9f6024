import type { FastifyRequest } from 'fastify'
import { ApiError } from './errors.ts'
import type { Seller } from './rows.ts'
import type { Context } from './sandbox-context.ts'

/**
 * The seller behind the bearer token. Throws 401 with the flat body: `authorization value not present` when the header
 * is missing or malformed, `user not found` for a token that is unknown, expired or revoked (provider facts 0.5).
 */
export function authenticate(ctx: Context, request: FastifyRequest): Seller {
  const match = /^Bearer ([\x21-\x7e]+)$/i.exec(request.headers.authorization ?? '')
  if (match === null) throw unauthorized('authorization value not present')
  const token = ctx.state.tables.accessTokens.get(match[1] ?? '')
  const seller =
    token === undefined ? undefined : ctx.state.tables.sellers.get(String(token.userId))
  if (
    token === undefined ||
    seller === undefined ||
    token.revoked ||
    token.expiresAt <= ctx.nowMs()
  ) {
    throw unauthorized('user not found')
  }
  return seller
}

function unauthorized(message: string): ApiError {
  return new ApiError(401, { code: 'unauthorized', message }, { envelope: 'auth' })
}
