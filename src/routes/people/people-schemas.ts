import { isIP } from 'node:net'
import { z } from 'zod'
import { roles } from '../../domain/permissions.ts'
import { fieldMessage } from '../../errors/field-reasons.ts'
import { longestPassword, shortestPassword } from '../../payments/process/passwords.ts'
import {
  AnyClientQuery,
  ClientNameSchema,
  ErpId,
  limitedText,
  Timestamp,
} from '../field-schemas.ts'

const Role = z
  .enum(roles)
  .describe(
    'administrator: everything of the client, or of the service without one; supervisor: sees and acts on some stores; viewer: reads, without a client the flow pages; flow_operator: the flow pages',
  )

const PersonName = limitedText(3, 100)
  // The logs name the service and addresses so.
  .refine(
    (name) => isIP(name) === 0 && name.toLowerCase() !== 'service',
    fieldMessage({ code: 'PERSON_NAME' }),
  )
  .refine((name) => name.trim() === name, fieldMessage({ code: 'TEXT_WITH_OUTER_SPACE' }))
  .describe('The name to sign in with; one for the whole service, whatever its case')
  .meta({ example: 'ana.gomez' })

const NewPassword = z
  .string()
  .min(shortestPassword)
  .max(longestPassword)
  .describe(`At least ${shortestPassword} characters`)

const GivenPassword = z.string().min(1).max(longestPassword)

const Code = z
  .string()
  .regex(/^[0-9 ]{6,8}$/)
  .describe('Six digits of the authenticator app')

const Stores = z
  .array(ErpId)
  .max(1000)
  .nullable()
  .default(null)
  .describe('The stores of a supervisor; null for other roles')

export const PeopleQuery = z.object(AnyClientQuery)
export const PersonParams = z.object({ personId: z.uuid().describe('Id of the person') })

export const NewPersonBody = z
  .strictObject({
    name: PersonName,
    role: Role,
    client: ClientNameSchema.nullable()
      .default(null)
      .describe('null: of the whole service; for an administrator of a client, his own'),
    stores: Stores,
  })
  .meta({
    id: 'NewPerson',
    example: { name: 'ana.gomez', role: 'supervisor', client: 'acme', stores: ['SUC-1'] },
  })

export const ChangePersonBody = z
  .strictObject({ role: Role, stores: Stores })
  .meta({ id: 'PersonChange', example: { role: 'viewer', stores: null } })

export const PersonSchema = z
  .object({
    id: z.uuid(),
    name: z.string(),
    role: Role,
    client: z.string().nullable(),
    stores: z.array(z.string()).nullable(),
    state: z
      .enum(['active', 'invited', 'expired', 'revoked'])
      .describe('invited: has no password yet; expired: the invitation ended unused'),
    totp: z.boolean().describe('Whether a sign-in needs a code of an authenticator app'),
    created_at: Timestamp,
    signed_in_at: Timestamp.nullable().describe('The last sign-in'),
    invitation_expires_at: Timestamp.nullable(),
  })
  .meta({
    id: 'Person',
    example: {
      id: '0c3f4d7e-5f0a-4c55-8f0e-1f0f6f2b7a11',
      name: 'ana.gomez',
      role: 'supervisor',
      client: 'acme',
      stores: ['SUC-1'],
      state: 'active',
      totp: true,
      created_at: '2026-11-21T14:30:00.000Z',
      signed_in_at: '2026-11-22T11:02:13.000Z',
      invitation_expires_at: null,
    },
  })

export const PeopleResponse = z
  .object({ people: z.array(PersonSchema), total: z.number() })
  .meta({ id: 'People' })

export const InvitedResponse = z
  .object({
    message: z.string(),
    person: PersonSchema,
    invitation: z.object({
      link: z
        .string()
        .describe('Shown once. The secret is behind the #, which browsers send to no server'),
      expires_at: Timestamp,
    }),
  })
  .meta({ id: 'PersonInvited' })

const PersonSession = z
  .object({
    id: z.uuid(),
    is_current: z.boolean().describe('The session of this request'),
    created_at: Timestamp,
    used_at: Timestamp.describe('To the minute'),
    expires_at: Timestamp,
    ip_address: z.string().nullable(),
    user_agent: z.string().nullable(),
  })
  .meta({ id: 'PersonSession' })

export const SessionsResponse = z
  .object({ sessions: z.array(PersonSession) })
  .meta({ id: 'PersonSessions' })

export const SessionsEndedResponse = z
  .object({ message: z.string(), ended: z.number() })
  .meta({ id: 'PersonSessionsEnded', example: { message: 'The person is signed out', ended: 2 } })

export const AccountResponse = z
  .object({ person: PersonSchema, sessions: z.array(PersonSession) })
  .meta({ id: 'Account' })

export const PasswordBody = z.strictObject({ current: GivenPassword, password: NewPassword }).meta({
  id: 'PasswordChange',
  example: { current: 'the old one', password: 'a longer new one' },
})

export const ConfirmTotpBody = z
  .strictObject({ code: Code })
  .meta({ id: 'TotpConfirmation', example: { code: '123456' } })
export const RemoveTotpBody = z
  .strictObject({ password: GivenPassword })
  .meta({ id: 'TotpRemoval', example: { password: 'the present one' } })

export const TotpResponse = z
  .object({
    secret: z.string().describe('Base32, for typing'),
    uri: z.string().describe('otpauth address, for the app'),
    qr: z
      .object({ size: z.number(), path: z.string() })
      .describe('The address as a QR code: its width in modules, and their outline as SVG path'),
  })
  .meta({
    id: 'TotpSecret',
    example: {
      secret: 'JBSWY3DPEHPK3PXP',
      uri: 'otpauth://totp/tillbridge:ana.gomez?issuer=tillbridge&secret=JBSWY3DPEHPK3PXP',
      qr: { size: 33, path: 'M2 2h1v1h-1z' },
    },
  })

export const DoneResponse = z
  .object({ message: z.string() })
  .meta({ id: 'AccountChanged', example: { message: 'The password is changed' } })

export const SessionParams = z.object({ sessionId: z.uuid().describe('Id of the session') })

export const FirstPasswordBody = z
  .strictObject({ code: z.string().min(1).max(200), password: NewPassword })
  .meta({
    id: 'InvitationAcceptance',
    example: { code: 'what stands between #/invitation/ and ?name=', password: 'a long new one' },
  })
