import { z } from 'zod'
import { fieldMessage } from '../../errors/field-reasons.ts'
import { ClientNameSchema, limitedText, Timestamp } from '../field-schemas.ts'

const KeyId = z.uuid().describe('Names the key; it is no secret')

export const CreateApiKeyBody = z
  .strictObject({
    client: ClientNameSchema,
    description: limitedText(0, 200).optional().meta({ example: 'ERP, casa central' }),
  })
  .meta({ id: 'NewApiKey', example: { client: 'acme', description: 'ERP, casa central' } })

export const CreateApiKeyResponse = z
  .object({
    message: z.string(),
    id: KeyId,
    client: z.string(),
    key: z.string().describe('The key; shown this once and stored nowhere'),
    mp_user_id: z.number().describe('Account that orders of this key are charged on'),
    nickname: z.string().nullable(),
  })
  .meta({
    id: 'CreatedApiKey',
    example: {
      message: 'The key is shown only now: store it',
      id: '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7',
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
          id: KeyId,
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
            id: '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7',
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
  .strictObject({
    client: ClientNameSchema.optional().describe('All keys of this client'),
    key_id: KeyId.optional().describe('This key alone'),
  })
  .superRefine(({ client, key_id }, context) => {
    if (client === undefined && key_id === undefined) {
      context.addIssue({
        code: 'custom',
        path: ['client'],
        message: fieldMessage({ code: 'CLIENT_OR_KEY' }),
      })
    }
    if (client !== undefined && key_id !== undefined) {
      const message = fieldMessage({ code: 'KEY_AND_CLIENT' })
      context.addIssue({ code: 'custom', path: ['key_id'], message })
    }
  })
  .meta({
    id: 'RevokeApiKeys',
    oneOf: [{ required: ['client'] }, { required: ['key_id'] }],
    example: { key_id: '7b0d6a52-91c4-4f3e-8a5b-2c1d0e9f8a77' },
  })
