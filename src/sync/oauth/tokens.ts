import type { Dispatcher } from 'undici'
import { type Reason, sentenceOf } from '../../domain/flow-reasons.ts'
import type { Secret } from '../../domain/secret.ts'
import { sameSecret } from '../../domain/secrets.ts'
import type { GrantKeeper } from './grant-keeper.ts'
import { type OAuthClient, requestToken } from './token-request.ts'

export type OAuthSettings = OAuthClient & {
  /** By the client's own credentials (RFC 6749, 4.4) when absent. */
  grant?: 'client_credentials' | 'refresh_token' | undefined
  /** The first one, of a `refresh_token` grant. */
  refreshToken?: Secret | undefined
}

/**
 * Nothing can be sent until another process has done its part, or somebody his: no attempt of any item changes that.
 * `why` holds no secret.
 */
export class TokenBlockedError extends Error {
  /** When it is worth another look. */
  readonly lookAgainMs: number

  readonly why: Reason

  constructor(why: Reason, lookAgainMs: number) {
    super(sentenceOf(why, 'en'))
    this.why = why
    this.lookAgainMs = lookAgainMs
  }
}

export type Tokens = {
  /**
   * One that is fresh, asked for when there is none; one question for all who want it. Rejects with TokenError,
   * TokenBlockedError or RequestFailure.
   */
  get(): Promise<string>
  /** The receiver does not take it: the next one is asked for. */
  refused(token: string): void
  /** What no message may show. */
  secrets(): string[]
}

/** What tokens are asked for with, and who shows them; `destination` is `source` for the source of a flow. */
export type TokenUse = {
  agent: Dispatcher
  timeoutMs: number
  usedBy: { flow: string; destination: string }
}

/** Tokens of either grant. Those of refresh tokens are kept by `grants`; where it is absent there are none. */
export function openTokens(
  auth: OAuthSettings,
  grants: Pick<GrantKeeper, 'tokens'> | undefined,
  use: TokenUse,
): Tokens {
  // By a clock that nobody can set.
  if (auth.grant !== 'refresh_token')
    return createTokens(auth, { ...use, nowMs: () => performance.now() })
  if (!grants) throw new Error('nobody keeps refresh tokens here')
  return grants.tokens(auth, use)
}

/** Of its life, so that none runs out on its way. */
export const usedShare = 0.9

/** Access tokens by client credentials live in this process only; the secret that gets them is in the flow file's references. */
export function createTokens(
  settings: OAuthClient,
  { agent, timeoutMs, nowMs }: { agent: Dispatcher; timeoutMs: number; nowMs: () => number },
): Tokens {
  let known: { token: string; until: number } | undefined
  let asking: Promise<string> | undefined

  const ask = async (): Promise<string> => {
    const askedAt = nowMs()
    const grant = { grant_type: 'client_credentials' }
    const { accessToken, lifeSeconds } = await requestToken(settings, grant, { agent, timeoutMs })
    known = { token: accessToken, until: askedAt + lifeSeconds * 1_000 * usedShare }
    return accessToken
  }

  return {
    get: async () => {
      if (known && nowMs() < known.until) return known.token
      asking ??= ask().finally(() => {
        asking = undefined
      })
      return await asking
    },
    refused: (token) => {
      if (known && sameSecret(known.token, token)) known = undefined
    },
    secrets: () => [settings.clientSecret.reveal(), ...(known ? [known.token] : [])],
  }
}
