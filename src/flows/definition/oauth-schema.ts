import { z } from 'zod'
import { httpUrl } from './addresses.ts'
import type { Path, PathFinding } from './findings.ts'
import type { FlowContext } from './flow-context.ts'
import { literalSecret } from './literal-secrets.ts'
import { secretText, text } from './value-schemas.ts'

/** The key `auth` of an HTTP source or destination. */
export const oauth = (context: FlowContext) =>
  z
    .strictObject({
      type: z.literal('oauth2').meta({ description: '`oauth2`', examples: ['oauth2'] }),
      grant: z
        .enum(['client_credentials', 'refresh_token'])
        .prefault('client_credentials')
        .meta({ description: 'also `refresh_token`', examples: ['refresh_token'] }),
      tokenUrl: httpUrl(context).meta({
        description: 'the address that gives tokens',
        examples: ['https://api.mercadolibre.com/oauth/token'],
      }),
      clientId: secretText(context).meta({
        description: 'id of the application',
        examples: [`\${env:MELI_APP_ID}`],
      }),
      clientSecret: secretText(context, literalSecret).meta({
        description: 'its secret, as a reference',
        examples: [`\${env:MELI_APP_SECRET}`],
      }),
      refreshToken: secretText(context, literalSecret)
        .optional()
        .meta({
          description:
            "the first refresh token, as a reference; required with `grant: refresh_token`. The newest one is encrypted in the database. A process that stops between the issuer's answer and its commit loses the access. After an error of the issuer the service asks again every 30 s",
          examples: [`\${env:MELI_REFRESH_TOKEN}`],
        }),
      scope: text()
        .max(1_024)
        .optional()
        .meta({
          description: 'the scope, where the issuer needs one',
          examples: ['write_products'],
        }),
      clientAuth: z
        .enum(['basic', 'form'])
        .prefault('basic')
        .meta({
          description: 'how the application identifies itself: HTTP Basic, or in the `form`',
          examples: ['form'],
        }),
    })
    .optional()

/** The access of an HTTP source or destination by OAuth 2. */
export type OAuthDefinition = NonNullable<z.output<ReturnType<typeof oauth>>>

/** The first refresh token is required for the grant `refresh_token` and forbidden for others. `under` is the path of `auth`. */
export function grantFindings(
  auth: Pick<OAuthDefinition, 'grant' | 'refreshToken'> | undefined,
  under: Path,
): PathFinding[] {
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
