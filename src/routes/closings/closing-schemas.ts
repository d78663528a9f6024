import { z } from 'zod'
import {
  closingResults,
  closingStates,
  lineKinds,
  type Means,
  means,
} from '../../domain/closing.ts'
import { fieldMessage } from '../../errors/field-reasons.ts'
import { lineActions } from '../../payments/closings/line-texts.ts'
import { languages } from '../../texts/language.ts'
import { WhoSchema } from '../audit/activity-schemas.ts'
import {
  ClientQuery,
  ErpId,
  limitedText,
  PartQuery,
  PointAmount,
  queryInteger,
  SignedSum,
  Timestamp,
} from '../field-schemas.ts'

const BusinessDay = z.iso
  .date()
  .regex(/^(19|20|21)/, fieldMessage({ code: 'DAY_OUT_OF_RANGE' }))
  .describe('A day by the clock of the store')
  .meta({ example: '2026-11-21' })

/** A counted amount may be zero, in the form of a till or of our answers. */
const CountedAmount = z
  .string()
  .regex(/^[0-9]{1,12}(?:[.,][0-9]{1,2})?$/, fieldMessage({ code: 'COUNTED_FORM' }))
  .describe('Decimal comma or point')

const counted = means.map((name) => [name, CountedAmount.optional()] as const)
const Declared = z
  .strictObject(Object.fromEntries(counted) as Record<Means, (typeof counted)[number][1]>)
  .describe('What was counted, by means of payment, before refunds')

export const OpenClosingBody = z
  .strictObject({
    caja_id: ErpId.optional()
      .describe('Box to close; or `sucursal_id`')
      .meta({ example: 'CAJA-1' }),
    sucursal_id: ErpId.optional().describe('Store to close, all its boxes together; or `caja_id`'),
    business_day: BusinessDay.optional().describe(
      'BusinessDay by the clock of the store: what is left of it is closed, up to this moment while it is not over. Or `from` and `to`',
    ),
    from: z.iso.datetime({ offset: true }).optional().describe('Start of another time than a day'),
    to: z.iso.datetime({ offset: true }).optional().describe('Its end, at most 32 days later'),
    declared: Declared.optional(),
  })
  .meta({
    id: 'NewClosing',
    example: {
      caja_id: 'CAJA-1',
      business_day: '2026-11-21',
      declared: { credit_card: '182340,50', debit_card: '90210,00' },
    },
  })

const State = z
  .enum(closingStates)
  .describe(
    'open: its time is not over for a minute yet; checking: it is being read; agreed: right to the cent; differs; unverified: something is open or could not be read',
  )

export const CountClosingBody = z.strictObject({ declared: Declared.optional() }).meta({
  id: 'ClosingCount',
  example: { declared: { credit_card: '182340,50', debit_card: '90210,00' } },
})

export const ClosingOpened = z
  .object({
    id: z.uuid(),
    number: z.number(),
    state: State,
    business_day: z.string(),
    from: Timestamp.describe('Where the closing before it ended'),
    to: Timestamp,
    uncovered: z
      .object({
        from: Timestamp,
        to: Timestamp,
        business_day: z.string().describe('Day of the first of these charges'),
      })
      .optional()
      .describe(
        'Only for the first closing of a box or store: charges before it that no closing covers. Close them with `from` and `to`, or day by day backwards',
      ),
  })
  .meta({
    id: 'ClosingOpened',
    example: {
      id: '0a4c2b3e-51f0-4d5f-9d3a-7d3f0a6b1c22',
      number: 41,
      state: 'open',
      business_day: '2026-11-21',
      from: '2026-11-21T03:00:00.000Z',
      to: '2026-11-22T01:00:00.000Z',
    },
  })

const Side = z
  .object({
    amount: PointAmount.nullable().describe('null: it cannot be read'),
    refunded: PointAmount,
    method: z.string().nullable(),
    status: z.string(),
    caja_id: z.string().nullable(),
    at: Timestamp,
  })
  .nullable()

const Line = z
  .object({
    kind: z.enum(lineKinds),
    order_id: z.uuid().nullable(),
    payment_id: z.string().nullable().describe("The payment's number at the provider"),
    external_reference: z.string().nullable(),
    here: Side.describe('What this service has'),
    there: Side.describe('What the provider has'),
    charged_instead: z
      .uuid()
      .nullable()
      .describe('Of a late payment: the order that was charged instead, where one is found'),
    counted: z
      .object({ medium: z.string(), declared: PointAmount, charged: PointAmount })
      .nullable()
      .describe('Of a means of payment that was counted otherwise than charged here'),
    dismissed: z
      .object({ by: WhoSchema.nullable(), reason: z.string(), at: Timestamp })
      .nullable()
      .describe('Of a payment that needs no order: who said so, and why'),
    message: z.string().describe('For the cashier; language by Accept-Language (es, en, pt)'),
    action: z.enum(lineActions),
  })
  .meta({ id: 'ClosingLine' })

const CountedSum = z.object({ count: z.number(), amount: PointAmount })
const CountedSide = CountedSum.extend({ refunded: PointAmount })

const Totals = z
  .object({
    here: CountedSide,
    there: CountedSide.extend({
      net: SignedSum.nullable().describe('null until the provider tells it of every charge'),
    }),
    media: z.array(
      z.object({
        medium: z.string(),
        here: CountedSum,
        there: CountedSum,
        declared: PointAmount.nullable(),
        difference: SignedSum.nullable().describe('What was declared less what is here'),
      }),
    ),
    installments: z.array(z.object({ installments: z.number(), ...CountedSum.shape })),
    refunds: CountedSum.describe('Refunded in this time, whenever the sale was'),
    net: SignedSum.nullable(),
  })
  .meta({ id: 'ClosingTotals' })

const exampleSide = {
  amount: '1234.50',
  refunded: '0.00',
  method: 'credit_card',
  status: 'approved',
  caja_id: 'CAJA-1',
  at: '2026-11-21T14:30:00.000Z',
}
const exampleLine = {
  kind: 'missing_here' as const,
  order_id: null,
  payment_id: '115019989861',
  external_reference: null,
  here: null,
  there: exampleSide,
  charged_instead: null,
  counted: null,
  dismissed: null,
  message:
    'Mercado Pago tiene este cobro y acá no figura. Buscá la venta: registrala o devolvé el dinero.',
  action: 'adopt_or_refund' as const,
}
const exampleTotals = {
  here: { count: 40, amount: '182340.50', refunded: '0.00' },
  there: { count: 41, amount: '183575.00', refunded: '0.00', net: '172560.51' },
  media: [
    {
      medium: 'credit_card',
      here: { count: 40, amount: '182340.50' },
      there: { count: 41, amount: '183575.00' },
      declared: '182340.50',
      difference: '0.00',
    },
  ],
  installments: [{ installments: 1, count: 41, amount: '183575.00' }],
  refunds: { count: 0, amount: '0.00' },
  net: '172560.51',
}

export const AmendmentResponse = z
  .object({
    id: z.uuid(),
    closing_id: z.uuid(),
    number: z.number(),
    reason: z.string(),
    result: z.enum(closingResults),
    totals: Totals,
    lines: z.array(Line),
    created_at: Timestamp,
  })
  .meta({
    id: 'ClosingAmendment',
    example: {
      id: '77a9d3c1-0f5c-4a77-b0ab-2f7f8d1e6c10',
      closing_id: '0a4c2b3e-51f0-4d5f-9d3a-7d3f0a6b1c22',
      number: 1,
      reason: 'Un cobro llegó después del cierre',
      result: 'differs',
      totals: exampleTotals,
      lines: [exampleLine],
      created_at: '2026-11-22T13:00:00.000Z',
    },
  })

const closingFields = {
  id: z.uuid(),
  number: z.number().describe('1, 2, 3 and so on of this box or store, without a gap'),
  state: State,
  result: z.enum(closingResults).nullable().describe('What was signed; null until it is'),
  reason: z
    .string()
    .nullable()
    .describe(
      'Why it is unverified: something_open, payment_unreadable, provider_unreadable, not_connected, account_changed, box_not_at_provider',
    ),
  caja_id: z.string().nullable().describe('null: of the whole store'),
  sucursal_id: z.string(),
  business_day: z.string(),
  time_zone: z.string(),
  from: Timestamp.describe('Where the closing before it ended'),
  to: Timestamp,
  requested_from: Timestamp.describe('As it was requested, a day from midnight to midnight'),
  requested_to: Timestamp,
  read_at: Timestamp.nullable().describe('When the first page of the comparison was asked for'),
  next_check_at: Timestamp.nullable().describe('When the service compares it next; null: never'),
  totals: Totals.nullable().describe('null until it was compared'),
  created_at: Timestamp,
  signed_at: Timestamp.nullable(),
}

const exampleClosing = {
  id: '0a4c2b3e-51f0-4d5f-9d3a-7d3f0a6b1c22',
  number: 41,
  state: 'differs' as const,
  result: null,
  reason: null,
  caja_id: 'CAJA-1',
  sucursal_id: 'SUC-1',
  business_day: '2026-11-21',
  time_zone: 'America/Argentina/Buenos_Aires',
  from: '2026-11-21T03:00:00.000Z',
  to: '2026-11-22T01:00:00.000Z',
  requested_from: '2026-11-21T03:00:00.000Z',
  requested_to: '2026-11-22T03:00:00.000Z',
  read_at: '2026-11-22T01:01:00.000Z',
  next_check_at: null,
  totals: exampleTotals,
  created_at: '2026-11-22T01:00:00.000Z',
  signed_at: null,
}

export const ClosingResponse = z
  .object({ ...closingFields, lines: z.array(Line), amendments: z.array(AmendmentResponse) })
  .meta({ id: 'Closing', example: { ...exampleClosing, lines: [exampleLine], amendments: [] } })

export const ClosingsResponse = z
  .object({
    closings: z.array(
      z.object({
        ...closingFields,
        differences: z.number().describe('Lines of the closing, without dismissed payments'),
      }),
    ),
    total: z.number(),
  })
  .meta({
    id: 'Closings',
    example: { closings: [{ ...exampleClosing, differences: 1 }], total: 1 },
  })

export const ReadClosingQuery = z.object({
  ...ClientQuery,
  wait: queryInteger(1, 30)
    .optional()
    .describe('Hold the answer up to this many seconds until the closing has a result'),
})

export const ClosingParams = z.object({
  closingId: limitedText(1, 100)
    .describe('Id of the closing')
    .meta({ example: '0a4c2b3e-51f0-4d5f-9d3a-7d3f0a6b1c22' }),
})

/** A day, or a moment: then its day counts. */
export const PaperQuery = z.object({
  ...ClientQuery,
  language: z
    .enum(languages)
    .optional()
    .describe('Instead of Accept-Language, which a link on a page cannot set'),
})

const DayQuery = z.union([z.iso.date(), z.iso.datetime({ offset: true })])

export const ListClosingsQuery = z.object({
  ...ClientQuery,
  caja_id: ErpId.optional().describe('Closings of this box only').meta({ example: 'CAJA-1' }),
  sucursal_id: ErpId.optional().describe('Closings of this store and its boxes only'),
  from: DayQuery.optional().describe('First business day'),
  to: DayQuery.optional().describe('Last business day'),
  ...PartQuery,
})

export const AmendBody = z
  .strictObject({ reason: limitedText(1, 500).describe('The reason, kept with the record') })
  .meta({ id: 'NewAmendment', example: { reason: 'Un cobro llegó después del cierre' } })

export const TimeZoneBody = z
  .strictObject({
    time_zone: z
      .string()
      .min(1)
      .max(60)
      .nullable()
      .describe("An IANA name; null: that of the account's country"),
  })
  .meta({ id: 'StoreTimeZone', example: { time_zone: 'America/Argentina/Ushuaia' } })

export const TimeZoneResponse = z
  .object({ sucursal_id: z.string(), time_zone: z.string().nullable() })
  .meta({
    id: 'StoreTimeZoneSet',
    example: { sucursal_id: 'SUC-1', time_zone: 'America/Argentina/Ushuaia' },
  })

export const ClosingCsv = z.string().meta({
  id: 'ClosingCsv',
  description: 'Charges of the closing for a spreadsheet',
  example: '"Fecha y hora";"Sucursal";"Importe"\r\n"21/11/2026 14:00";"Centro";"1000,00"\r\n',
})

export const ClosingPage = z.string().meta({
  id: 'ClosingPage',
  description: 'The closing as a page to print',
  example: '<!doctype html><title>Cierre 41</title>',
})
