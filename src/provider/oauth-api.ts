import { z } from 'zod'
import type { ProviderClient } from './client.ts'
import { MpNumber } from './payload-fields.ts'
import type { CallOptions, Provider, ProviderSettings, TokenGrant } from './provider-types.ts'

/** The shortest token lifetime that the provider documents; used when the answer has none. */
const shortestTokenSeconds = 21_600

/**
 * Only the two tokens are strict. The refresh token that was used for them is spent, so an odd value beside them must
 * not lose them.
 */
const MpToken = z.object({
  access_token: z.string().min(1),
  refresh_token: z.string().min(1).nullish(),
  expires_in: MpNumber.pipe(z.number().positive()).catch(shortestTokenSeconds),
  user_id: MpNumber.nullish().catch(null),
  public_key: z.string().nullish().catch(null),
  live_mode: z.boolean().nullish().catch(null),
  scope: z.string().nullish().catch(null),
})

/** OAuth with PKCE S256 (provider file 1). Token parameters are sent in the body only; a token call is never repeated. */
export function createOauth(client: ProviderClient, settings: ProviderSettings): Provider['oauth'] {
  const token = async (
    operation: 'oauth.exchange' | 'oauth.refresh',
    grant: Record<string, string>,
    options: CallOptions | undefined,
  ): Promise<TokenGrant> =>
    grantFrom(
      await client.call({
        operation,
        method: 'POST',
        path: '/oauth/token',
        body: {
          client_id: settings.clientId,
          client_secret: settings.clientSecret,
          ...grant,
        },
        schema: MpToken,
        options,
      }),
    )
  const origins = [settings.authUrl, settings.apiUrl].map((url) => new URL(url).origin)
  return {
    isIssuer: (iss) => origins.includes(URL.parse(iss)?.origin ?? ''),
    authorizationUrl({ state, codeChallenge, redirectUri }) {
      const url = new URL(`${settings.authUrl.replace(/\/+$/, '')}/authorization`)
      url.search = new URLSearchParams({
        client_id: settings.clientId,
        response_type: 'code',
        platform_id: 'mp',
        state,
        redirect_uri: redirectUri,
        code_challenge: codeChallenge,
        code_challenge_method: 'S256',
      }).toString()
      return url.href
    },
    exchangeCode: ({ code, codeVerifier, redirectUri }, options) =>
      token(
        'oauth.exchange',
        {
          grant_type: 'authorization_code',
          code,
          redirect_uri: redirectUri,
          code_verifier: codeVerifier,
        },
        options,
      ),
    refresh: (refreshToken, options) =>
      token('oauth.refresh', { grant_type: 'refresh_token', refresh_token: refreshToken }, options),
  }
}

/** Absent members become null: a refresh leaves some out and the stored values stay (file 1.2). */
function grantFrom(token: z.infer<typeof MpToken>): TokenGrant {
  return {
    accessToken: token.access_token,
    refreshToken: token.refresh_token ?? null,
    expiresInSeconds: token.expires_in,
    mpUserId: token.user_id ?? null,
    publicKey: token.public_key ?? null,
    liveMode: token.live_mode ?? null,
    scope: token.scope ?? null,
  }
}
