import { z } from 'zod'

/** Repeated keys come as arrays; the signature check refuses them. */
const once = z.union([z.string(), z.array(z.string())]).optional()

export const WebhookQuery = z.looseObject({
  'data.id': once.describe('Id of the resource; it is signed'),
  type: once.describe('Topic'),
})

export const WebhookHeaders = z.looseObject({
  'x-signature': once.describe('`ts=<digits>,v1=<64 hexadecimal characters>`'),
  'x-request-id': once.describe('Id of the delivery; it is signed'),
})

export const WebhookResponse = z
  .object({ received: z.boolean() })
  .meta({ id: 'WebhookReceived', example: { received: true } })
