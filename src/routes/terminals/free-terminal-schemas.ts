import { z } from 'zod'
import { freeingActions, terminalVerdicts } from '../../payments/terminals/free-terminal.ts'
import { ClientNameSchema, limitedText, PointAmount, Timestamp } from '../field-schemas.ts'
import { Status } from '../orders/order-schemas.ts'

export const TerminalParams = z.object({
  terminalId: limitedText(1, 100)
    .describe('Id of the terminal at the provider')
    .meta({ example: 'NEWLAND_N950__N950NCB801293324' }),
})

export const FreeTerminalBody = z
  .strictObject({
    client: ClientNameSchema,
    dry_run: z
      .boolean()
      .default(true)
      .describe('true: only say what would be done; nothing is changed anywhere'),
    reason: limitedText(1, 200).describe('Why, for the audit log'),
  })
  .meta({
    id: 'FreeTerminal',
    example: { client: 'acme', dry_run: true, reason: 'CAJA-1 says busy since 10:15' },
  })

export const FreeTerminalResponse = z
  .object({
    message: z.string(),
    verdict: z
      .enum(terminalVerdicts)
      .describe(
        'clear: no order of this service holds the terminal; freed: nor after what was done; would_be_freed: nor after what a run without dry_run does; held: at least one still holds it',
      ),
    client: z.string(),
    terminal_id: z.string(),
    dry_run: z.boolean(),
    orders: z
      .array(
        z.object({
          order_id: z.uuid(),
          mp_order_id: z.string().nullable(),
          client: z.string(),
          caja_id: z.string(),
          external_reference: z.string(),
          amount: PointAmount,
          status: Status.describe('By the provider, read for this answer, except for action wait'),
          age_seconds: z.number(),
          expires_at: Timestamp,
          action: z
            .enum(freeingActions)
            .describe(
              'cancel: the provider cancels it; resolve: unknown whether the provider has it, so it is asked for under its own key and then canceled; ask_device: the device shows it, and the provider is asked to cancel it there; cancel_requested: that was asked, and the device may still take the money; cancel_on_device: only the device can cancel it; wait: the provider does not answer; other_client: name its client; none: it does not hold the terminal',
            ),
          done: z.boolean().describe('The action was carried out'),
          message: z.string().describe('What was or would be done, or what to do by hand'),
        }),
      )
      .describe('Every order of this service that may hold the terminal, oldest first'),
  })
  .meta({
    id: 'TerminalFreed',
    example: {
      message: 'The terminal would be free; send the same request with dry_run false',
      verdict: 'would_be_freed',
      client: 'acme',
      terminal_id: 'NEWLAND_N950__N950NCB801293324',
      dry_run: true,
      orders: [
        {
          order_id: '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7',
          mp_order_id: 'ORD01K8ZQ4M7N2P5R6S7T8V9W0X1Y',
          client: 'acme',
          caja_id: 'CAJA-1',
          external_reference: '0001-00004711',
          amount: '1234.50',
          status: 'created',
          age_seconds: 512,
          expires_at: '2026-11-21T14:46:00.000Z',
          action: 'cancel',
          done: false,
          message: 'It waits for the device; the provider can cancel it',
        },
      ],
    },
  })
