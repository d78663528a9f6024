import type { ProviderClient } from './client.ts'
import { grantFrom } from './from-wire.ts'
import type { CallOptions, Provider, ProviderSettings, TokenGrant } from './provider-types.ts'
import { MpToken } from './wire.ts'

/** OAuth with PKCE S256 (provider file 1). Token parameters are sent in the body only; a token call is never repeated. */
export function createOauth(client: ProviderClient, settings: ProviderSettings): Provider['oauth'] {
  const token = async (
    operation: string,
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
