import { z } from 'zod'
import { orderStatuses } from '../../domain/order.ts'
import { ClientName, ClientQuery, PointAmount, Timestamp } from '../field-schemas.ts'

/** A response contains at most so many boxes. */
export const mostBoxes = 2000

const span = {
  from: z.iso.datetime({ offset: true }).describe('Start of the first hour counted'),
  to: z.iso
    .datetime({ offset: true })
    .optional()
    .describe('End, at most 32 days later; now unless given'),
}

export const StatisticsQuery = z.object({ ...ClientQuery, ...span })

export const AllStatisticsQuery = z.object({
  client: ClientName.optional().describe('Orders of this client only'),
  ...span,
})

export const StatisticsResponse = z
  .object({
    from: Timestamp,
    to: Timestamp,
    orders: z.number(),
    paid: z.number().describe('Orders whose money came in, be it given back later or not'),
    declined: z.number().describe('Orders that failed with a payment tried'),
    paid_amount: PointAmount,
    refunded_amount: PointAmount,
    open: z
      .number()
      .describe(
        'Orders that wait for their end now, whenever they were made; not those that somebody has settled',
      ),
    action_required: z.number().describe('Those of them that need somebody at the terminal'),
    paid_after_close: z
      .array(z.object({ order_id: z.uuid(), client: z.string(), external_reference: z.string() }))
      .describe('Orders whose money came after they were closed, newest first, 20 at most'),
    in_doubt: z
      .array(
        z.object({
          order_id: z.uuid(),
          client: z.string(),
          caja_id: z.string(),
          external_reference: z.string(),
          created_at: Timestamp,
        }),
      )
      .describe(
        'Orders of which nobody knows whether they were charged, whenever they were made, and that nobody has settled; newest first, 20 at most',
      ),
    orphans: z.number().describe('Charges without an order that wait for somebody'),
    chargebacks: z
      .object({
        undecided: z.number().describe('Charge-backs that are open, or whose case is not known'),
        documents_due_at: Timestamp.nullable().describe(
          'The next deadline of one that waits for documents',
        ),
      })
      .describe('Disputes of buyers, whenever they were opened'),
    median_charge_seconds: z
      .number()
      .nullable()
      .describe('From the order to its money; null when nothing was paid'),
    hours: z
      .array(
        z.object({
          from: Timestamp,
          orders: z.number(),
          paid: z.number(),
          paid_amount: PointAmount,
        }),
      )
      .describe('Hours with orders, oldest first'),
    boxes: z
      .array(
        z.object({
          client: z.string(),
          sucursal_id: z.string(),
          store_name: z.string(),
          caja_id: z.string(),
          name: z.string(),
          paid: z.number().describe('Orders of the span whose money came in'),
          paid_amount: PointAmount,
          open: z.number().describe('Orders that wait for their end'),
          open_order: z
            .object({
              order_id: z.uuid(),
              external_reference: z.string(),
              amount: PointAmount,
              status: z.enum(orderStatuses),
              created_at: Timestamp,
            })
            .nullable()
            .describe('The newest of them'),
          last_status: z.enum(orderStatuses).nullable().describe('Of its newest order in a day'),
          last_status_detail: z.string().nullable(),
          last_order_at: Timestamp.nullable(),
        }),
      )
      .describe('Boxes in use, 2,000 at most'),
    webhooks: z
      .object({
        received: z.number().describe('Rightly signed ones'),
        failed: z.number().describe('Received, and could not be worked yet'),
        rejected: z.number().describe('Wrongly signed; counted for the administrator only'),
        last_received_at: Timestamp.nullable(),
      })
      .describe('Since the start of the span'),
  })
  .meta({
    id: 'Statistics',
    example: {
      from: '2026-11-21T03:00:00.000Z',
      to: '2026-11-21T14:30:00.000Z',
      orders: 48,
      paid: 40,
      declined: 5,
      paid_amount: '182340.50',
      refunded_amount: '999.90',
      open: 3,
      action_required: 0,
      paid_after_close: [],
      in_doubt: [],
      orphans: 0,
      chargebacks: { undecided: 0, documents_due_at: null },
      median_charge_seconds: 11.4,
      hours: [{ from: '2026-11-21T12:00:00.000Z', orders: 48, paid: 40, paid_amount: '182340.50' }],
      boxes: [
        {
          client: 'acme',
          sucursal_id: 'SUC-001',
          store_name: 'Sucursal Centro',
          caja_id: 'CAJA-07',
          name: 'Caja 7',
          paid: 40,
          paid_amount: '182340.50',
          open: 0,
          open_order: null,
          last_status: 'processed',
          last_status_detail: 'accredited',
          last_order_at: '2026-11-21T14:29:00.000Z',
        },
      ],
      webhooks: {
        received: 45,
        failed: 0,
        rejected: 0,
        last_received_at: '2026-11-21T14:29:20.000Z',
      },
    },
  })
