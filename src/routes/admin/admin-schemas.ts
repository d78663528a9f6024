import { z } from 'zod'
import { fieldMessage } from '../../errors/field-reasons.ts'
import {
  ClientName,
  OrderId,
  queryInteger,
  queryLimit,
  queryOffset,
  Timestamp,
  text,
} from '../field-schemas.ts'
import { pageFields, querySequenceCursor, queryTimeCursor } from '../list-cursor.ts'
import { ListOrdersQuery, Status } from '../orders/order-schemas.ts'

export const ClientParams = z.object({ clientName: ClientName })

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

export const InvitationBody = z
  .strictObject({ client: ClientName })
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

export const WebhookLogsQuery = z.object({
  limit: queryLimit(200, 50),
  client: ClientName.optional().describe('Webhooks of this client only'),
  cursor: queryTimeCursor(),
})

export const WebhookLog = z
  .object({
    id: z.uuid(),
    client: z.string().nullable(),
    mp_user_id: z.number().nullable(),
    request_id: z.string().nullable(),
    topic: z.string().nullable(),
    action: z.string().nullable(),
    resource_id: z.string().nullable(),
    order_id: z.string().nullable(),
    live_mode: z.boolean().nullable(),
    signature_valid: z.boolean(),
    signature_form: z.string().nullable(),
    status: z.enum(['received', 'processed', 'duplicate', 'ignored', 'failed', 'rejected']),
    error_message: z.string().nullable(),
    payload: z
      .unknown()
      .describe('As it came; it is not signed and decides nothing. Null beyond 16,384 characters'),
    deliveries: z.number(),
    received_at: Timestamp,
    processed_at: Timestamp.nullable(),
    duration_ms: z.number().nullable(),
  })
  .meta({
    id: 'WebhookLog',
    example: {
      id: '0b6f3a52-9a8e-4c67-8b0e-3f1f3a7d2c11',
      client: 'acme',
      mp_user_id: 2025701502,
      request_id: 'bb56a2f1-6aae-46ac-982e-9dcd3581d08e',
      topic: 'order',
      action: 'order.processed',
      resource_id: 'ORD01K8ZQ4M7N2P5R6S7T8V9W0X1Y',
      order_id: '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7',
      live_mode: true,
      signature_valid: true,
      signature_form: 'lower',
      status: 'processed',
      error_message: null,
      payload: { action: 'order.processed' },
      deliveries: 1,
      received_at: '2026-11-21T14:30:00.000Z',
      processed_at: '2026-11-21T14:30:00.120Z',
      duration_ms: 120,
    },
  })

export const WebhookLogsResponse = z
  .object({ logs: z.array(WebhookLog), ...pageFields })
  .meta({ id: 'WebhookLogs' })

export const WebhookParams = z.object({
  id: z.uuid().describe('Id of the entry in the webhook log'),
})

export const ReplayResponse = z
  .object({ message: z.string(), webhook: WebhookLog })
  .meta({ id: 'WebhookReplayed' })

export const ActivityQuery = z.object({
  limit: queryLimit(200, 50),
  offset: queryOffset(1_000_000_000),
  action: text(1, 100).optional().describe('This action only, such as order.created'),
  resource_type: text(1, 100).optional().describe('This kind of thing only, such as order'),
  status: z.enum(['success', 'failed']).optional().describe('What became of the action'),
  client: ClientName.optional().describe('Actions for this client only'),
  order_id: z.uuid().optional().describe('What was done to this order'),
  person_id: z.uuid().optional().describe('What this person did'),
  from: z.iso.datetime({ offset: true }).optional().describe('At or after'),
  to: z.iso.datetime({ offset: true }).optional().describe('Before'),
  cursor: querySequenceCursor(),
})

export const Who = z
  .object({
    kind: z.enum(['person', 'key', 'administrator', 'service']),
    name: z
      .string()
      .nullable()
      .describe('Of the person, or the description of the key, or its mask; null for the others'),
  })
  .describe('Who did it')

export const ActivityResponse = z
  .object({
    logs: z.array(
      z
        .object({
          id: z.uuid(),
          client_name: z.string().nullable(),
          ip_address: z.string().nullable(),
          action: z.string().meta({ example: 'order.created' }),
          resource_type: z.string(),
          resource_id: z.string().nullable(),
          status: z.enum(['success', 'failed']),
          error_message: z.string().nullable(),
          metadata: z.record(z.string(), z.unknown()),
          who: Who,
          duration_ms: z.number(),
          created_at: Timestamp,
          seq: z
            .number()
            .nullable()
            .describe('Place in the chain; null until it is sealed, within about a second'),
          hash: z.string().nullable().describe('Hash of the chain there; null until it is sealed'),
        })
        .meta({
          id: 'Activity',
          example: {
            id: '0b6f3a52-9a8e-4c67-8b0e-3f1f3a7d2c11',
            client_name: 'acme',
            ip_address: '192.0.2.7',
            action: 'order.created',
            resource_type: 'order',
            resource_id: '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7',
            status: 'success',
            error_message: null,
            metadata: {
              mp_order_id: 'ORD01K8ZQ4M7N2P5R6S7T8V9W0X1Y',
              amount: '1234.50',
              caja_id: 'CAJA-1',
            },
            who: { kind: 'person', name: 'ana.gomez' },
            duration_ms: 412,
            created_at: '2026-11-21T14:30:00.000Z',
            seq: 4711,
            hash: '9f2c…',
          },
        }),
    ),
    ...pageFields,
  })
  .meta({ id: 'ActivityLog' })

export const VerifyQuery = z.object({
  checkpoint_seq: queryInteger(1, Number.MAX_SAFE_INTEGER)
    .optional()
    .describe(
      '`seq` of a line `activity log checkpoint`, or of an earlier check; with checkpoint_hash',
    ),
  checkpoint_hash: z
    .string()
    .regex(/^[0-9a-f]{64}$/, fieldMessage({ code: 'HASH_WRONG' }))
    .optional()
    .describe('`hash` of the same line'),
})

export const VerifyResponse = z
  .object({
    valid: z.boolean(),
    entries: z.number().describe('How many fit, from the first on'),
    broken_at: z.number().nullable().describe('Place of the first entry that does not fit'),
    reason: z.string().nullable(),
    head: z
      .object({ seq: z.number(), hash: z.string() })
      .describe('Up to where the log is sealed. Keep it elsewhere: it is a checkpoint'),
    unsealed: z.number().describe('Entries after that, which are still to be sealed'),
    findings: z
      .array(
        z.object({
          seq: z
            .number()
            .describe('Place in the chain; of a row that has none, the place after the end'),
          entry_id: z.string().nullable(),
          reason: z.string(),
        }),
      )
      .describe('All that does not fit, 100 at most'),
    checkpoint: z
      .object({ seq: z.number(), found: z.boolean() })
      .nullable()
      .describe('Whether the log holds the checkpoint of the query'),
  })
  .meta({
    id: 'ActivityCheck',
    example: {
      valid: true,
      entries: 4711,
      broken_at: null,
      reason: null,
      head: { seq: 4711, hash: '9f2c…' },
      unsealed: 2,
      findings: [],
      checkpoint: null,
    },
  })

export const SimulateParams = z.object({ idempotencyKey: OrderId })
export const SimulateQuery = z.object({
  client: ClientName.optional().describe('The client of the order; must match when given'),
})

const failureDetails = [
  'bad_filled_card_data',
  'required_call_for_authorize',
  'card_disabled',
  'high_risk',
  'insufficient_amount',
  'invalid_installments',
  'max_attempts_exceeded',
  'rejected_other_reason',
  'processing_error',
] as const

/** The combinations that the provider accepts (its simulation reference); another one is refused here, with the field. */
export const SimulateBody = z
  .strictObject({
    status: z.enum(['processed', 'canceled', 'expired', 'failed', 'refunded', 'action_required']),
    payment_method_type: z
      .enum(['debit_card', 'credit_card', 'qr'])
      .optional()
      .describe('With processed or failed'),
    installments: z.int().min(1).max(36).optional().describe('Only with credit_card'),
    payment_method_id: z
      .enum(['visa', 'master', 'amex', 'debvisa', 'debmaster'])
      .optional()
      .describe('Card brand, with processed or failed'),
    status_detail: z
      .enum(['accredited', ...failureDetails])
      .optional()
      .describe('accredited with processed; a reason with failed'),
  })
  .superRefine((body, context) => {
    const refuse = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message })
    const paysOrFails = body.status === 'processed' || body.status === 'failed'
    if (!paysOrFails && body.payment_method_type !== undefined) {
      refuse('payment_method_type', fieldMessage({ code: 'METHOD_UNASKED' }))
    }
    if (!paysOrFails && body.payment_method_id !== undefined) {
      refuse('payment_method_id', fieldMessage({ code: 'METHOD_UNASKED' }))
    }
    if (body.installments !== undefined && body.payment_method_type !== 'credit_card') {
      refuse('installments', 'goes with payment_method_type credit_card only')
    }
    if (body.status_detail !== undefined) {
      const fits =
        body.status === 'processed'
          ? body.status_detail === 'accredited'
          : body.status === 'failed' && body.status_detail !== 'accredited'
      if (!fits) refuse('status_detail', `does not go with status ${body.status}`)
    }
  })
  .meta({
    id: 'SimulatedEvent',
    example: {
      status: 'processed',
      payment_method_type: 'credit_card',
      installments: 1,
      payment_method_id: 'visa',
      status_detail: 'accredited',
    },
  })

export const SimulateResponse = z
  .object({
    message: z.string(),
    order_id: z.uuid(),
    status: Status.describe('The state before the event'),
    expected_within_seconds: z.number(),
  })
  .meta({
    id: 'EventSimulated',
    example: {
      message: 'The provider plays the event',
      order_id: '0b6f3a52-9a8e-4c67-8b0e-3f1f3a7d2c11',
      status: 'created',
      expected_within_seconds: 10,
    },
  })

export const AdminOrdersQuery = ListOrdersQuery.extend({
  order_id: OrderId.optional().describe('This order only, whosever it is'),
})
