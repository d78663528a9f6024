import { z } from 'zod'
import { centsFromPoint } from '../domain/money.ts'

/**
 * The fields of the provider's payloads that are used. Ids come as numbers and as strings, short forms lack members,
 * unknown members are dropped (card digits among them). Amounts are strict: one that cannot be read makes the whole
 * answer invalid. Fields that only describe a payment become null instead.
 */
export const MpId = z.union([z.string().min(1), z.number().int()]).transform(String)

/** An amount of money as integer cents. */
const MpAmount = z.union([z.string(), z.number()]).transform((amount, context) => {
  const cents = centsFromPoint(String(amount))
  if (cents !== undefined) return cents
  context.addIssue({ code: 'custom', message: 'not an amount' })
  return z.NEVER
})

export const MpNote = z.union([z.string(), z.number()]).transform(String).nullish().catch(null)

export const MpNumber = z
  .union([z.number(), z.string().regex(/^[0-9]{1,15}$/)])
  .transform(Number)
  .pipe(z.number().int().nonnegative())

const MpReference = z.union([z.string(), z.number()]).transform(String).nullish()

const MpInstallments = z
  .union([z.number(), z.string().regex(/^[0-9]{1,3}$/)])
  .transform(Number)
  .nullish()
  .catch(null)

const MpPayment = z.object({
  id: MpId,
  amount: MpAmount.nullish(),
  paid_amount: MpAmount.nullish(),
  tip_amount: MpAmount.nullish(),
  refunded_amount: MpAmount.nullish(),
  status: z.string(),
  status_detail: MpNote,
  reference_id: MpNote,
  reference: z.object({ id: MpNote }).nullish().catch(null),
  payment_method: z
    .object({ type: MpNote, id: MpNote, installments: MpInstallments })
    .nullish()
    .catch(null),
})

const MpRefund = z.object({
  id: MpId,
  transaction_id: MpNote,
  reference_id: MpNote,
  amount: MpAmount.nullish(),
  status: z.string().nullish(),
})

export const MpOrder = z.object({
  id: z.string().min(1),
  type: MpNote,
  user_id: MpId.nullish(),
  external_reference: MpReference,
  status: z.string(),
  status_detail: MpNote,
  total_amount: MpAmount.nullish(),
  currency: MpNote,
  total_paid_amount: MpAmount.nullish(),
  created_date: MpNote,
  last_updated_date: MpNote,
  description: MpNote,
  expiration_time: MpNote,
  integration_data: z.object({ application_id: MpNote }).nullish().catch(null),
  config: z
    .object({
      point: z
        .object({
          terminal_id: z.string().nullish(),
          print_on_terminal: MpNote,
          ticket_number: MpNote,
        })
        .nullish(),
      payment_method: z.object({ default_type: MpNote }).nullish().catch(null),
    })
    .nullish(),
  transactions: z
    .object({
      payments: z.array(MpPayment).nullish(),
      refunds: z.array(MpRefund).nullish(),
      chargebacks: z
        .array(z.object({ case_id: MpNote }))
        .nullish()
        .catch(null),
    })
    .nullish(),
})

/** What is read of an order that cannot be read. */
export const MpOrderName = z.object({ id: MpNote, external_reference: MpNote }).catch({})

/** `data` is the official SDK's name; nothing is confirmed for Point. */
export const MpOrderSearch = z.object({
  data: z.array(z.unknown()),
  paging: z
    .object({ total_pages: MpNumber.nullish().catch(null) })
    .nullish()
    .catch(null),
})

/** The shortest token lifetime that the provider documents; used when the answer has none. */
const shortestTokenSeconds = 21_600

/**
 * Only the two tokens are strict. The refresh token that was used for them is spent, so an odd value beside them must
 * not lose them.
 */
export const MpToken = z.object({
  access_token: z.string().min(1),
  refresh_token: z.string().min(1).nullish(),
  expires_in: MpNumber.pipe(z.number().positive()).catch(shortestTokenSeconds),
  user_id: MpNumber.nullish().catch(null),
  public_key: z.string().nullish().catch(null),
  live_mode: z.boolean().nullish().catch(null),
  scope: z.string().nullish().catch(null),
})

export const MpUser = z.object({
  id: MpNumber,
  nickname: MpNote,
  site_id: MpNote,
  tags: z.array(z.string()).nullish().catch(null),
})

export const MpStore = z.object({ id: MpId, name: MpNote, external_id: MpNote })

export const MpPos = z.object({ id: MpId, store_id: MpNote, external_id: MpNote })

/**
 * A list of stores or boxes: `results` in the documented searches. `data` is also accepted, because the list of POS v2
 * is not documented.
 */
export const MpSearch = z.union([
  z.object({ results: z.array(z.unknown()) }).transform((page) => page.results),
  z.object({ data: z.array(z.unknown()) }).transform((page) => page.data),
])

/** Reads each entry of a list by itself; returns those that can be read and those that cannot. */
export function readEntries<Item>(
  schema: z.ZodType<Item>,
  entries: readonly unknown[],
): { items: Item[]; unreadable: unknown[] } {
  const items: Item[] = []
  const unreadable: unknown[] = []
  for (const entry of entries) {
    const parsed = schema.safeParse(entry)
    if (parsed.success) items.push(parsed.data)
    else unreadable.push(entry)
  }
  return { items, unreadable }
}

export const MpTerminal = z.object({
  id: z.string().min(1),
  pos_id: MpNote,
  store_id: MpNote,
  external_pos_id: MpNote,
  operating_mode: z.string().nullish(),
})

/** A list without a readable entry does not prove that there is no terminal. */
export const MpTerminalList = z
  .object({
    data: z.object({ terminals: z.array(z.unknown()) }),
    paging: z.object({ total: MpNumber.nullish() }).nullish(),
  })
  .transform(({ data, paging }, context) => {
    const rows = data.terminals.length
    const { items } = readEntries(MpTerminal, data.terminals)
    if (items.length === 0 && rows > 0) {
      context.addIssue({ code: 'custom', message: 'no terminal can be read' })
    }
    return { terminals: items, rows, total: paging?.total ?? rows }
  })

/** For answers whose body is not used. */
export const MpAnything = z.unknown()

export type MpOrder = z.infer<typeof MpOrder>
export type MpPayment = z.infer<typeof MpPayment>
export type MpRefund = z.infer<typeof MpRefund>
export type MpToken = z.infer<typeof MpToken>
export type MpTerminal = z.infer<typeof MpTerminal>

/** A date; null when it cannot be read. */
export function dateFrom(text: string | null | undefined): Date | null {
  const ms = Date.parse(text ?? '')
  return Number.isNaN(ms) ? null : new Date(ms)
}

/** The provider's own number of a request, for its support. */
export function requestIdOf(headers: Record<string, string | string[] | undefined>): string | null {
  const header = headers['x-request-id']
  return (Array.isArray(header) ? header[0] : header) ?? null
}
