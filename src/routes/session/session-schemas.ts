import { z } from 'zod'
import { roles } from '../../domain/permissions.ts'
import { longestPassword } from '../../payments/process/passwords.ts'
import { Timestamp } from '../field-schemas.ts'

const TokenBody = z.strictObject({
  token: z.string().min(1).max(200).describe('The admin token or a client key'),
})

const PersonBody = z.strictObject({
  name: z.string().min(1).max(100).describe('Of a person who was invited'),
  password: z.string().min(1).max(longestPassword),
  code: z
    .string()
    .max(8)
    .optional()
    .describe('Six digits of the authenticator app, for people who have set it up'),
})

export const PersonSignInBody = PersonBody.meta({
  id: 'PersonSignIn',
  example: { name: 'ana.gomez', password: 'a long password', code: '123456' },
})

export const FlowSessionResponse = z
  .object({
    valid: z.boolean(),
    person: z.object({ id: z.uuid(), name: z.string(), role: z.enum(roles) }).nullable(),
    expires_at: Timestamp.nullable(),
    may: z
      .array(z.string())
      .nullable()
      .describe(
        'What the role of the person allows; `see_flows` reads, `run_flows` does the rest. null without a session',
      ),
  })
  .meta({
    id: 'FlowSession',
    example: {
      valid: true,
      person: {
        id: '0c3f4d7e-5f0a-4c55-8f0e-1f0f6f2b7a11',
        name: 'leo.ruiz',
        role: 'flow_operator',
      },
      expires_at: '2026-11-22T02:30:00.000Z',
      may: ['account', 'see_flows', 'run_flows'],
    },
  })

export const SignInBody = z
  .union([TokenBody, PersonBody])
  .meta({ id: 'SignIn', example: { token: 'mk_0123…' } })

export const SessionResponse = z
  .object({
    valid: z.boolean(),
    type: z
      .enum(['admin', 'client'])
      .nullable()
      .describe('null also for a person who sees no payments'),
    client: z.string().nullable().describe('null for the administrator'),
    expires_at: Timestamp.nullable().describe('When the session ends by itself'),
    time_zone: z
      .string()
      .nullable()
      .describe(
        'Where the shops are: the IANA name of the one zone that they share; null where they do not, or where one is not known',
      ),
    person: z
      .object({
        id: z.uuid(),
        name: z.string(),
        role: z.enum(roles),
        stores: z.array(z.string()).nullable(),
      })
      .nullable()
      .describe('Who signed in with a name and a password; null for a token'),
    may: z
      .array(z.string())
      .nullable()
      .describe('What the role of the person allows; null for a token, which has no role'),
  })
  .meta({
    id: 'Session',
    example: {
      valid: true,
      type: 'client',
      client: 'acme',
      expires_at: '2026-11-22T02:30:00.000Z',
      time_zone: 'America/Argentina/Buenos_Aires',
      person: null,
      may: null,
    },
  })

export const SignedOutResponse = z
  .object({ message: z.string() })
  .meta({ id: 'SignedOut', example: { message: 'The session is over' } })
