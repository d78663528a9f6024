import { z } from 'zod'
import { ClientNameSchema, queryLimit, Timestamp } from '../field-schemas.ts'
import { pageFields, queryTimeCursor } from '../list-cursor.ts'

export const WebhookLogsQuery = z.object({
  limit: queryLimit(200, 50),
  client: ClientNameSchema.optional().describe('Webhooks of this client only'),
  cursor: queryTimeCursor(),
})

const WebhookLog = z
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
