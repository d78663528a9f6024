import { z } from 'zod'
import { ClientNameSchema, limitedText, Timestamp } from '../field-schemas.ts'

const TargetUrl = limitedText(1, 2000)
  .optional()
  .describe(
    'Where the browser goes after the connection: this service, loopback, or an allowed origin',
  )
const Invitation = limitedText(1, 200).describe('Single-use token of an invitation link')

const invited = { client: ClientNameSchema, invitation: Invitation, target_url: TargetUrl }

export const LoginQuery = z.object({
  client: ClientNameSchema,
  target_url: TargetUrl,
  invitation: Invitation.optional(),
  redirect: z
    .enum(['true', 'false'])
    .optional()
    .describe(
      'false answers 200 with the address instead of leading there; over https the cookie is still this browser’s',
    ),
})

export const InvitationQuery = z.object(invited)

export const InvitationPage = z
  .string()
  .describe('What is about to be connected, and a button')
  .meta({ id: 'InvitationPage', example: '<!doctype html>…' })

export const AcceptInvitationBody = z.strictObject(invited).meta({
  id: 'AcceptInvitation',
  example: { client: 'otra-tienda', invitation: '1f0c6a1e-6a55-4f0c-8b8e-0f4f8f2a9a10.Q2xh…' },
})

export const LoginBegunResponse = z
  .object({ message: z.string(), url: z.string().describe('The consent page of the provider') })
  .meta({
    id: 'LoginBegun',
    example: {
      message: 'Continue the login at the provider',
      url: 'https://auth.mercadopago.com/authorization?client_id=…',
    },
  })

export const LoginBegunPage = z.string().describe('The same, for a person: it leads on by itself')

export const CallbackQuery = z.object({
  code: limitedText(1, 500)
    .optional()
    .describe('Authorization code; exchanged once for the tokens'),
  state: limitedText(1, 200).optional().describe('State of the login that this return belongs to'),
  iss: limitedText(0, 1000).optional().describe('Who sent the browser back; must be the provider'),
  error: limitedText(0, 200).optional().describe('Set by the provider when the seller refused'),
  error_description: limitedText(0, 1000).optional().describe('Why, in the words of the provider'),
})

export const CallbackResponse = z.object({ message: z.string(), client: z.string() }).meta({
  id: 'ConnectionMade',
  example: { message: 'The account is connected', client: 'acme' },
})

export const ConnectedPage = z.string().describe('The same, for a person in a browser')

export const ValidateResponse = z
  .object({
    valid: z.boolean(),
    type: z.enum(['admin', 'client']).nullable(),
    client: z.string().nullable().describe('null for the administrator'),
  })
  .meta({ id: 'TokenCheck', example: { valid: true, type: 'client', client: 'acme' } })

export const ConnectionResponse = z
  .object({
    authenticated: z.boolean(),
    client: z.string(),
    mp_user_id: z.number().nullable(),
    live_mode: z.boolean().nullable(),
    expires_at: Timestamp.nullable(),
    expires_in_hours: z.number().nullable(),
    expired: z.boolean(),
  })
  .meta({
    id: 'OAuthStatus',
    example: {
      authenticated: true,
      client: 'acme',
      mp_user_id: 2025701502,
      live_mode: true,
      expires_at: '2027-05-20T14:30:00.000Z',
      expires_in_hours: 4319.75,
      expired: false,
    },
  })

export const RefreshResponse = z
  .object({ message: z.string(), clientName: z.string(), expiresAt: Timestamp })
  .meta({
    id: 'OAuthRefreshed',
    example: {
      message: 'The tokens were renewed',
      clientName: 'acme',
      expiresAt: '2027-05-20T14:30:00.000Z',
    },
  })

export const MessageResponse = z
  .object({ message: z.string() })
  .meta({ id: 'Message', example: { message: 'The connection was removed' } })
