import { z } from 'zod'
import { httpUrl } from './addresses.ts'
import type { FlowContext } from './context.ts'
import { secretText, text } from './fields.ts'
import { literalSecret } from './literal-secrets.ts'

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
