import { z } from 'zod'
import type { OAuthSettings } from '../oauth/access-tokens.ts'
import { httpUrl } from './addresses.ts'
import type { Path, PathFinding } from './findings.ts'
import type { FlowContext } from './flow-context.ts'
import { literalSecret } from './literal-secrets.ts'
import { secretText, text } from './value-schemas.ts'

/** The key `auth` of an HTTP source or destination. */
export const oauth = (context: FlowContext) =>
  z
    .strictObject({
      type: z.literal('oauth2'),
      grant: z.enum(['client_credentials', 'refresh_token']).prefault('client_credentials'),
      tokenUrl: httpUrl(context),
      clientId: secretText(context),
      clientSecret: secretText(context, literalSecret),
      refreshToken: secretText(context, literalSecret)
        .optional()
        .describe(
          'of grant refresh_token: the first one; those that follow are kept in the database',
        ),
      scope: text().max(1_024).optional(),
      clientAuth: z.enum(['basic', 'form']).prefault('basic'),
    })
    .optional()
    .describe('OAuth 2.0: every request carries an access token that is asked for there')

/** The first refresh token is required for the grant `refresh_token` and forbidden for others. `under` is the path of `auth`. */
export function grantFindings(auth: OAuthSettings | undefined, under: Path): PathFinding[] {
  if (!auth) return []
  const { grant, refreshToken } = auth
  const path = [...under, 'auth']
  if (grant === 'refresh_token' && !refreshToken) {
    return [{ path: [...path, 'grant'], why: { code: 'NEEDS_REFRESH_TOKEN' } }]
  }
  if (grant !== 'refresh_token' && refreshToken) {
    const why = { code: 'USELESS_WITHOUT_GRANT' } as const
    return [{ path: [...path, 'refreshToken'], isKey: true, why }]
  }
  return []
}
