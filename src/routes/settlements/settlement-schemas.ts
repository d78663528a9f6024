import { z } from 'zod'
import { chargeClasses } from '../../domain/net-amount.ts'
import {
  ClientQuery,
  Day,
  limitedText,
  PartQuery,
  SignedAmount,
  SpanQuery,
  Timestamp,
} from '../field-schemas.ts'
import { pageFields, queryTimeCursor } from '../list-cursor.ts'

const Report = z.enum(['settlement', 'release'])

const Totals = z
  .object({
    gross: SignedAmount,
    fee: SignedAmount,
    financing: SignedAmount,
    taxes: SignedAmount,
    net: SignedAmount,
  })
  .describe('Sums over the rows; what the provider keeps is above zero')

export const HandInQuery = z.object({
  ...ClientQuery,
  name: limitedText(1, 200).optional().describe('The name of the file, for the list'),
  zone: limitedText(1, 10)
    .optional()
    .describe('The zone of times without one, such as GMT-03; GMT-4 unless given')
    .meta({ example: 'GMT-04' }),
})

export const HandInBody = z
  .strictObject({
    content: z.string().min(1).describe('The whole file, as text'),
  })
  .meta({
    id: 'SettlementFileContent',
    example: {
      content:
        'SOURCE_ID,ORDER_MP,TRANSACTION_TYPE,TRANSACTION_AMOUNT,FEE_AMOUNT,TAXES_AMOUNT,SETTLEMENT_NET_AMOUNT\n4017323059,ORD01K8ZQ4M7N2P5R6S7T8V9W0X1Y,SETTLEMENT,1234.50,-54.19,-12.35,1167.96\n',
    },
  })

const totals = {
  gross: '1234.50',
  fee: '54.19',
  financing: '0.00',
  taxes: '12.35',
  net: '1167.96',
}

const File = {
  id: z.uuid(),
  report: Report,
  name: z.string().nullable(),
  rows: z.number().describe('Movements in the file'),
  totals: Totals,
  from: Timestamp.nullable().describe('The first movement'),
  to: Timestamp.nullable().describe('The last one'),
}

const fileExample = {
  id: '0d6f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7',
  report: 'settlement' as const,
  name: 'settlement-2026-11-21.csv',
  rows: 1,
  totals,
  from: '2026-11-21T14:30:00.000Z',
  to: '2026-11-21T14:30:00.000Z',
}

export const HandInResponse = z
  .object({
    message: z.string(),
    ...File,
    added: z.number().describe('Movements that no reading has brought before'),
    changed: z.number().describe('Movements about which the file says something else than before'),
    known: z.number().describe('Movements that were known as they are'),
    without_order: z.number().describe('Movements that belong to no order of this service'),
  })
  .meta({
    id: 'SettlementFileTaken',
    example: {
      message: 'The report is imported',
      ...fileExample,
      added: 1,
      changed: 0,
      known: 0,
      without_order: 0,
    },
  })

export const FilesQuery = z.object({
  ...ClientQuery,
  ...PartQuery,
  cursor: queryTimeCursor(),
})

export const FilesResponse = z
  .object({
    files: z.array(
      z.object({
        ...File,
        origin: z.enum(['handed_in', 'fetched']),
        added: z.number().describe('Movements that its first reading brought'),
        readings: z.number(),
        created_at: Timestamp,
        last_read_at: Timestamp,
      }),
    ),
    ...pageFields,
  })
  .meta({
    id: 'SettlementFiles',
    example: {
      files: [
        {
          ...fileExample,
          origin: 'handed_in',
          added: 1,
          readings: 1,
          created_at: '2026-11-22T09:00:00.000Z',
          last_read_at: '2026-11-22T09:00:00.000Z',
        },
      ],
      total: 1,
    },
  })

export const FetchBody = z
  .strictObject({
    report: Report,
    from: Day.describe('The first day, by the provider’s time (GMT-4)'),
    to: Day.describe('The last day, which must be over; 60 days at most'),
  })
  .meta({
    id: 'SettlementFetchWanted',
    example: { report: 'settlement', from: '2026-11-20', to: '2026-11-21' },
  })

export const FetchParams = z.object({
  fetchId: z.uuid().describe('The `id` that asking for the report gave'),
})

export const FetchResponse = z
  .object({
    id: z.uuid(),
    report: Report,
    from: Day,
    to: Day,
    state: z
      .enum(['waiting', 'ordered', 'taken_in', 'refused'])
      .describe('ordered: the provider makes it, which takes minutes'),
    reason: z.string().nullable().describe('Why it is refused'),
    file_id: z.uuid().nullable().describe('The imported report'),
    created_at: Timestamp,
    ended_at: Timestamp.nullable(),
  })
  .meta({
    id: 'SettlementFetch',
    example: {
      id: '9c6f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7',
      report: 'settlement',
      from: '2026-11-20',
      to: '2026-11-21',
      state: 'ordered',
      reason: null,
      file_id: null,
      created_at: '2026-11-22T09:00:00.000Z',
      ended_at: null,
    },
  })

export const NetQuery = z.object({
  ...ClientQuery,
  ...SpanQuery,
})

const NamedSum = z.object({
  name: z.string(),
  entity: z.string().nullable(),
  amount: SignedAmount,
})

export const NetResponse = z
  .object({
    from: Timestamp,
    to: Timestamp,
    orders: z.number().describe('Charges whose net is known'),
    estimated: z.number(),
    settled: z.number(),
    differs: z.number(),
    gross: SignedAmount,
    fee: SignedAmount,
    financing: SignedAmount,
    taxes: z.array(NamedSum).describe('By name, the largest first, 100 at most'),
    taxes_total: SignedAmount,
    not_classed: z
      .array(NamedSum)
      .describe('Charges whose names no rule knows, 100 at most; a part of `unexplained`'),
    unexplained: SignedAmount,
    net: SignedAmount.describe('gross − fee − financing − taxes_total − unexplained'),
    charged_back: z
      .object({ taken: SignedAmount, returned: SignedAmount })
      .describe('What charge-backs took of these charges, and what came back; no part of `net`'),
    unknown: z
      .object({ orders: z.number(), gross: SignedAmount })
      .describe('Paid orders whose net is not known yet'),
  })
  .meta({
    id: 'NetOfSpan',
    example: {
      from: '2026-11-01T03:00:00.000Z',
      to: '2026-11-22T03:00:00.000Z',
      orders: 1,
      estimated: 0,
      settled: 1,
      differs: 0,
      gross: '1234.50',
      fee: '54.19',
      financing: '0.00',
      taxes: [{ name: 'tax_withholding_sirtac-caba', entity: 'caba', amount: '12.35' }],
      taxes_total: '12.35',
      not_classed: [],
      unexplained: '0.00',
      net: '1167.96',
      charged_back: { taken: '0.00', returned: '0.00' },
      unknown: { orders: 0, gross: '0.00' },
    },
  })

const ClassName = limitedText(1, 128)
  .describe('The provider’s name of the charge; a * at its end matches any text')
  .meta({ example: 'tax_withholding_iibb-*' })
const Entity = limitedText(1, 64)
  .nullable()
  .describe('The financial entity that the charge must name; null: any, or none')
  .meta({ example: null })
const Class = z
  .enum(chargeClasses)
  .describe('payer: it is the buyer’s, and no part of the seller’s money')

const ruleFields = { name: z.string(), entity: z.string().nullable(), class: Class }

export const ChargeClassBody = z
  .strictObject({ name: ClassName, entity: Entity.optional(), class: Class })
  .meta({
    id: 'ChargeClass',
    example: { name: 'tax_withholding_iibb-*', entity: null, class: 'tax' },
  })

export const ChargeClassResponse = z
  .object({
    message: z.string(),
    ...ruleFields,
    applied: z.boolean().describe('Whether every net goes by it already; else it follows'),
  })
  .meta({
    id: 'ChargeClassSet',
    example: {
      message: 'The rule for charges of this name is stored',
      name: 'tax_withholding_iibb-*',
      entity: null,
      class: 'tax',
      applied: true,
    },
  })

export const ChargeClassesResponse = z
  .object({
    classes: z.array(
      z.object({
        ...ruleFields,
        origin: z.enum(['built_in', 'operator']),
        updated_at: Timestamp,
        applied: z.boolean(),
      }),
    ),
    not_classed: z
      .array(
        z.object({
          name: z.string(),
          entity: z.string().nullable(),
          orders: z.number(),
          amount: SignedAmount,
        }),
      )
      .describe('Names of the last 32 days that no rule knows, the most frequent first'),
  })
  .meta({
    id: 'ChargeClasses',
    example: {
      classes: [
        {
          name: 'mp_processing_fee',
          entity: null,
          class: 'fee',
          origin: 'built_in',
          updated_at: '2026-11-01T03:00:00.000Z',
          applied: true,
        },
      ],
      not_classed: [{ name: 'brand_new_levy', entity: null, orders: 3, amount: '12.00' }],
    },
  })
