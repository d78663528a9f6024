import { z } from 'zod'
import { Timestamp } from '../field-schemas.ts'

export const SignInBody = z
  .strictObject({
    token: z.string().min(1).max(200).describe('The admin token or a client key'),
  })
  .meta({ id: 'SignIn', example: { token: 'mk_0123…' } })

export const SessionResponse = z
  .object({
    valid: z.boolean(),
    type: z.enum(['admin', 'client']).nullable(),
    client: z.string().nullable().describe('null for the administrator'),
    expires_at: Timestamp.nullable().describe('When the session ends by itself'),
    time_zone: z
      .string()
      .nullable()
      .describe(
        'Where the shops are: the IANA name of the one zone that they share; null where they do not, or where one is not known',
      ),
  })
  .meta({
    id: 'Session',
    example: {
      valid: true,
      type: 'client',
      client: 'acme',
      expires_at: '2026-11-22T02:30:00.000Z',
      time_zone: 'America/Argentina/Buenos_Aires',
    },
  })

export const SignedOutResponse = z
  .object({ message: z.string() })
  .meta({ id: 'SignedOut', example: { message: 'The session is over' } })
