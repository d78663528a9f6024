import { z } from 'zod'
import { ClientName, Timestamp, text } from '../fields.ts'

export const CreateApiKeyBody = z
  .strictObject({
    client: ClientName,
    description: text(0, 200).optional().meta({ example: 'ERP, casa central' }),
  })
  .meta({ id: 'NewApiKey', example: { client: 'acme', description: 'ERP, casa central' } })

export const CreateApiKeyResponse = z
  .object({
    message: z.string(),
    client: z.string(),
    key: z.string().describe('The key; shown this once and stored nowhere'),
    mp_user_id: z.number().describe('Account that orders of this key are charged on'),
    nickname: z.string().nullable(),
  })
  .meta({
    id: 'CreatedApiKey',
    example: {
      message: 'The key is shown only now: store it',
      client: 'acme',
      key: `mk_${'0123456789abcdef'.repeat(4)}`,
      mp_user_id: 2025701502,
      nickname: 'TESTUSER2025701502',
    },
  })

export const ApiKeysResponse = z
  .object({
    keys: z.array(
      z
        .object({
          client: z.string(),
          description: z.string().nullable(),
          active: z.boolean(),
          created_at: Timestamp,
          last_used_at: Timestamp.nullable(),
          key: z.string().describe('Masked'),
          mp_user_id: z
            .number()
            .nullable()
            .describe('Account it was made for; it ends when the client is connected on another'),
        })
        .meta({
          id: 'ApiKey',
          example: {
            client: 'acme',
            description: 'ERP, casa central',
            active: true,
            created_at: '2026-11-21T14:30:00.000Z',
            last_used_at: '2026-11-21T18:05:11.000Z',
            key: 'mk_0123…cdef',
            mp_user_id: 2025701502,
          },
        }),
    ),
  })
  .meta({ id: 'ApiKeys' })

export const RevokeBody = z
  .strictObject({ client: ClientName })
  .meta({ id: 'RevokeApiKeys', example: { client: 'acme' } })
