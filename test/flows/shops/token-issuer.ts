import type { Answered, Asked } from './double.ts'

export type Issuer = {
  /** The response of the token endpoint. */
  answer(asked: Asked): Answered
  /** Whether a request has a currently valid access token. */
  admits(asked: Asked): boolean
  /** Accepted refresh tokens in order. */
  renewals: string[]
  /** The newest refresh token. */
  newest(): string
  /** Invalidates the access tokens; the refresh token stays valid. */
  endAccess(): void
  /** Refuses all later token requests. */
  revoke(): void
  /** A person authorizes the application again, which issues this refresh token. */
  accept(refreshToken: string): void
}

/**
 * An issuer whose refresh tokens work once: each renewal returns a new one, and the previous one is `invalid_grant` from then
 * on. Tokens are long enough to be found in logs.
 */
export function createIssuer(options: {
  clientId: string
  clientSecret: string
  refreshToken: string
  /** Lifetime of an access token; default: six hours. */
  lifeSeconds?: number
}): Issuer {
  const renewals: string[] = []
  let refresh = options.refreshToken
  let isRevoked = false
  let good: string | undefined
  const refuse = (error: string): Answered => ({
    status: 400,
    body: { error, message: `refused ${refresh}`, status: 400, cause: [] },
  })
  return {
    renewals,
    newest: () => refresh,
    endAccess() {
      good = undefined
    },
    revoke() {
      isRevoked = true
    },
    accept(refreshToken) {
      isRevoked = false
      refresh = refreshToken
    },
    admits: ({ headers }) => good !== undefined && headers.authorization === `Bearer ${good}`,
    answer({ body }) {
      const form = new URLSearchParams(String(body))
      const isKnown =
        form.get('client_id') === options.clientId &&
        form.get('client_secret') === options.clientSecret
      if (!isKnown) return refuse('invalid_client')
      if (form.get('grant_type') !== 'refresh_token') return refuse('unsupported_grant_type')
      if (isRevoked || form.get('refresh_token') !== refresh) return refuse('invalid_grant')
      renewals.push(refresh)
      refresh = `TG-canary-refresh-${renewals.length}`
      good = `APP_USR-canary-access-${renewals.length}`
      return {
        status: 200,
        body: {
          access_token: good,
          token_type: 'bearer',
          expires_in: options.lifeSeconds ?? 21_600,
          scope: 'offline_access read write',
          user_id: 8_035_443,
          refresh_token: refresh,
        },
      }
    },
  }
}
