import { z } from 'zod'
import { closingResults } from '../../domain/closing.ts'
import { isTimeZone } from '../../domain/time-zone.ts'
import { fieldMessage } from '../../errors/field-reasons.ts'
import { AnyClientQuery, PointAmount, SignedSum, SpanQuery, Timestamp } from '../field-schemas.ts'

export const SalesQuery = z.object({
  ...AnyClientQuery,
  ...SpanQuery,
})

export const SalesOverTimeQuery = z.object({
  ...SalesQuery.shape,
  group: z
    .enum(['day', 'week', 'store', 'method'])
    .default('day')
    .describe('By day, by week (from Monday), by store, or by method of payment'),
  time_zone: z
    .string()
    .max(64)
    .refine(isTimeZone, { error: fieldMessage({ code: 'TIME_ZONE_NAME' }) })
    .optional()
    .describe('By whose clocks days begin; unless given that of the shops, or of Buenos Aires')
    .meta({ example: 'America/Argentina/Buenos_Aires' }),
})

const figures = {
  paid: z.number().describe('Orders that were paid, with or without a later refund'),
  paid_amount: PointAmount,
  refunded_amount: PointAmount.describe('Refunded amount of these orders'),
  provider: z
    .object({
      payments: z.number(),
      amount: PointAmount,
      refunded_amount: PointAmount,
      without_amount: z.number().describe('Payments whose amount cannot be read; they count as 0'),
    })
    .describe(
      'The same sales by the payments that Mercado Pago lists, with those that have no order',
    ),
  not_listed_yet: z
    .object({ paid: z.number(), amount: PointAmount })
    .describe('Orders that were paid after the list was read'),
  difference: SignedSum.describe(
    '`provider.amount` less `paid_amount`, without what is not listed yet',
  ),
  fees: z
    .object({
      orders: z.number().describe('Orders whose net is known'),
      amount: SignedSum.describe('What Mercado Pago keeps of them: fees, financing and taxes'),
    })
    .describe('As far as they are known'),
}

export const SalesResponse = z
  .object({
    from: Timestamp,
    to: Timestamp,
    read_until: Timestamp.nullable().describe(
      'Until when the payments of Mercado Pago have been read; null when a client with sales was never read',
    ),
    total: z.object(figures),
    stores: z.array(
      z.object({
        client: z.string(),
        sucursal_id: z.string(),
        name: z.string().nullable().describe('Null for a store that is not in use any more'),
        ...figures,
        boxes: z.object({
          total: z.number(),
          problems: z.number().describe('Boxes that `GET /health/fleet` reports with a problem'),
        }),
        closings: z
          .object({
            expected: z.number().describe('Boxes with sales, or closed'),
            closed: z.number().describe('Those with a closing that ends in this time'),
            differs: z.number().describe('Closings with a difference'),
          })
          .describe('By box; a closing of the whole store counts for each of its boxes'),
      }),
    ),
  })
  .meta({ id: 'Sales' })

const tried = {
  orders: z.number().describe('All orders'),
  declined: z.number().describe('Orders that failed with a payment tried'),
}

export const SalesOverTimeResponse = z
  .object({
    from: Timestamp,
    to: Timestamp,
    time_zone: z.string(),
    total: z.object({ ...tried, ...figures }),
    groups: z
      .array(
        z.object({
          key: z
            .string()
            .describe(
              'A day, the Monday of a week, the id of a store, or a method such as `credit_card`',
            ),
          client: z.string().nullable().describe('Of a store; null for other groups'),
          name: z
            .string()
            .nullable()
            .describe('Of a store; null for other groups, and for one that is not in use any more'),
          ...tried,
          ...figures,
        }),
      )
      .describe(
        'Days, weeks and methods without orders and payments are left out; stores in use are not',
      ),
  })
  .meta({ id: 'SalesOverTime' })

export const StoreSalesResponse = z
  .object({
    boxes: z.array(
      z.object({
        caja_id: z.string().nullable().describe('Null for payments that name the store only'),
        name: z.string().nullable().describe('Null for a box that is not in use any more'),
        ...figures,
        closing: z.enum(['none', 'open', ...closingResults]),
        has_problem: z.boolean(),
      }),
    ),
  })
  .meta({ id: 'StoreSales' })
