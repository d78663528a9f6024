import { z } from 'zod'
import { ClientNameSchema, Timestamp } from '../field-schemas.ts'

export const InvitationBody = z
  .strictObject({ client: ClientNameSchema })
  .meta({ id: 'NewInvitation', example: { client: 'otra-tienda' } })

export const InvitationResponse = z
  .object({
    message: z.string(),
    id: z.uuid(),
    client: z.string(),
    url: z.string(),
    expires_at: Timestamp,
  })
  .meta({
    id: 'Invitation',
    example: {
      message: 'The link works once',
      id: '0f4a6a5e-7a43-4be7-9c1b-8a4d2f1f6f10',
      client: 'acme',
      url: 'https://pay.example/oauth/login?client=acme&invitation=…',
      expires_at: '2026-11-22T14:30:00.000Z',
    },
  })

export const InvitationsResponse = z
  .object({
    invitations: z.array(
      z.object({
        id: z.uuid(),
        client: z.string(),
        created_at: Timestamp,
        expires_at: Timestamp,
      }),
    ),
  })
  .meta({
    id: 'Invitations',
    example: {
      invitations: [
        {
          id: '0f4a6a5e-7a43-4be7-9c1b-8a4d2f1f6f10',
          client: 'acme',
          created_at: '2026-11-21T14:30:00.000Z',
          expires_at: '2026-11-22T14:30:00.000Z',
        },
      ],
    },
  })

export const InvitationParams = z.object({
  invitationId: z
    .uuid()
    .describe('Id of the invitation')
    .meta({ example: '0f4a6a5e-7a43-4be7-9c1b-8a4d2f1f6f10' }),
})
