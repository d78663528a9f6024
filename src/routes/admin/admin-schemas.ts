import { z } from 'zod'
import { ClientNameSchema, OrderId, Timestamp } from '../field-schemas.ts'
import { ListOrdersQuery } from '../orders/order-schemas.ts'

export const ClientParams = z.object({ clientName: ClientNameSchema })

export const ClientResponse = z
  .object({
    client: z.string(),
    nickname: z.string().nullable().describe('Name of the account at the provider'),
    pinned_mp_user_id: z
      .number()
      .nullable()
      .describe('The only account that this client may be connected to'),
    created_at: Timestamp,
    oauth: z.object({
      authenticated: z.boolean(),
      mp_user_id: z.number().nullable(),
      live_mode: z.boolean().nullable(),
      expires_at: Timestamp.nullable(),
      access_token: z.string().nullable(),
      refresh_token: z.string().nullable(),
      public_key: z.string().nullable(),
    }),
    api_key: z
      .object({
        active: z.boolean(),
        key: z.string().nullable().describe('Masked: the value is shown only at creation'),
        last_used_at: Timestamp.nullable(),
      })
      .describe('The newest active key'),
  })
  .meta({
    id: 'ClientInformation',
    example: {
      client: 'acme',
      nickname: 'TESTUSER2025701502',
      pinned_mp_user_id: 2025701502,
      created_at: '2026-11-21T14:30:00.000Z',
      oauth: {
        authenticated: true,
        mp_user_id: 2025701502,
        live_mode: true,
        expires_at: '2027-05-20T14:30:00.000Z',
        access_token: 'APP_USR-…',
        refresh_token: 'TG-…',
        public_key: 'APP_USR-…',
      },
      api_key: {
        active: true,
        key: 'mk_0123…cdef',
        last_used_at: '2026-11-21T18:05:11.000Z',
      },
    },
  })

export const ClientsResponse = z
  .object({
    clients: z.array(
      z
        .object({
          client: z.string(),
          nickname: z.string().nullable(),
          connection: z.enum(['connected', 'expired', 'lost', 'none']),
          live_mode: z.boolean().nullable(),
          expires_at: Timestamp.nullable(),
          active_keys: z.number(),
          created_at: Timestamp,
        })
        .meta({
          id: 'ClientSummary',
          example: {
            client: 'acme',
            nickname: 'TESTUSER2025701502',
            connection: 'connected',
            live_mode: true,
            expires_at: '2027-05-20T14:30:00.000Z',
            active_keys: 1,
            created_at: '2026-11-21T14:30:00.000Z',
          },
        }),
    ),
    total: z.number(),
  })
  .meta({ id: 'Clients' })

export const UnpinResponse = z
  .object({ message: z.string(), client: z.string(), mp_user_id: z.number().nullable() })
  .meta({
    id: 'AccountUnpinned',
    example: { message: 'The account is released', client: 'acme', mp_user_id: 2025701502 },
  })

export const AdminOrdersQuery = ListOrdersQuery.extend({
  order_id: OrderId.optional().describe('This order only, whosever it is'),
})
