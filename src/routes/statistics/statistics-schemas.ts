import { z } from 'zod'
import { orderStatuses } from '../../domain/order.ts'
import { AnyClientQuery, ClientQuery, PointAmount, SpanQuery, Timestamp } from '../field-schemas.ts'

/** A response contains at most so many boxes. */
export const mostBoxes = 2000

export const StatisticsQuery = z.object({ ...ClientQuery, ...SpanQuery })

export const AllStatisticsQuery = z.object({ ...AnyClientQuery, ...SpanQuery })

export const StatisticsResponse = z
  .object({
    from: Timestamp,
    to: Timestamp,
    orders: z.number(),
    paid: z.number().describe('Orders that were paid, with or without a later refund'),
    declined: z.number().describe('Orders that failed with a payment tried'),
    paid_amount: PointAmount,
    refunded_amount: PointAmount,
    open: z
      .number()
      .describe(
        'Orders that are open now, whenever they were made; without those that an operator has settled',
      ),
    action_required: z.number().describe('Those of them that need a check at the terminal'),
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
        'Orders whose result is unknown and that are not settled, whenever they were made; newest first, 20 at most',
      ),
    orphans: z.number().describe('Unclaimed payments that wait for a decision'),
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
          open: z.number().describe('Open orders'),
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
          sucursal_id: 'SUC-1',
          store_name: 'Sucursal Centro',
          caja_id: 'CAJA-1',
          name: 'Caja 1',
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
