import type { Dispatcher } from 'undici'
import { sameSecret } from '../../domain/secret-hash.ts'
import { type Reason, ReasonError } from '../../texts/reason.ts'
import type { OAuthDefinition } from '../definition/oauth-schema.ts'
import { type OAuthClient, requestToken } from './token-request.ts'

export type OAuthSettings = OAuthClient & Partial<Pick<OAuthDefinition, 'grant' | 'refreshToken'>>

/** No token is available until another process or an operator acts. Retrying an item does not help. */
export class TokenBlockedError extends ReasonError {
  /** Time until the next check. */
  readonly checkAgainMs: number

  constructor(why: Reason, checkAgainMs: number) {
    super(why)
    this.checkAgainMs = checkAgainMs
  }
}

export type Tokens = {
  /**
   * A valid token; requests one if needed. Concurrent callers share one request. Rejects with TokenError, TokenBlockedError or
   * RequestFailure.
   */
  get(): Promise<string>
  /** The receiver refused this token: the next call of `get` requests another one. */
  refused(token: string): void
  /** Texts that no message may contain. */
  secrets(): string[]
}

/** How tokens are requested, and for which destination (`source` for the flow's source). */
export type TokenUse = {
  agent: Dispatcher
  timeoutMs: number
  usedBy: { flow: string; destination: string }
}

/** The keeper of refresh tokens (refresh-token-grants.ts). */
export type RefreshTokens = {
  /** The access tokens of a source or destination whose `grant` is `refresh_token`. */
  tokens(settings: OAuthSettings, about: TokenUse): Tokens
}

/** Tokens of both grants. The grant `refresh_token` needs `grants`. */
export function openTokens(
  auth: OAuthSettings,
  grants: RefreshTokens | undefined,
  use: TokenUse,
): Tokens {
  // A clock that cannot be set.
  if (auth.grant !== 'refresh_token')
    return createTokens(auth, { ...use, nowMs: () => performance.now() })
  if (!grants) throw new Error('there is no keeper of refresh tokens')
  return grants.tokens(auth, use)
}

/** Share of a token's lifetime during which it is used, so that it does not expire during a request. */
export const usedShare = 0.9

/** Access tokens by client credentials exist only in this process. Their client secret is a reference in the flow file. */
function createTokens(
  settings: OAuthClient,
  { agent, timeoutMs, nowMs }: { agent: Dispatcher; timeoutMs: number; nowMs: () => number },
): Tokens {
  let known: { token: string; until: number } | undefined
  let pending: Promise<string> | undefined

  const requestNew = async (): Promise<string> => {
    const askedAt = nowMs()
    const grant = { grant_type: 'client_credentials' }
    const { accessToken, lifeSeconds } = await requestToken(settings, grant, { agent, timeoutMs })
    known = { token: accessToken, until: askedAt + lifeSeconds * 1_000 * usedShare }
    return accessToken
  }

  return {
    get: async () => {
      if (known && nowMs() < known.until) return known.token
      pending ??= requestNew().finally(() => {
        pending = undefined
      })
      return await pending
    },
    refused: (token) => {
      if (known && sameSecret(known.token, token)) known = undefined
    },
    secrets: () => [settings.clientSecret.reveal(), ...(known ? [known.token] : [])],
  }
}
