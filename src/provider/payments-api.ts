import { createHash } from 'node:crypto'
import { z } from 'zod'
import { canonicalJson } from '../domain/json.ts'
import { signedCents } from '../domain/money.ts'
import { endedUnpaid } from '../domain/order-state.ts'
import { type ProviderClient, segment } from './client.ts'
import { MpId, MpNote, MpNumber } from './payload-fields.ts'
import type {
  Provider,
  ProviderAmount,
  ProviderPayment,
  UnreadablePayment,
} from './provider-types.ts'

/**
 * Payments, which orders consist of, with the provider's fees. From public sources (projects that read the wire, the
 * published description of the API); not tried live. So no unknown value is refused: statuses stay text, and an amount
 * that cannot be read keeps its text. A row of a search that cannot be read does not stop the others.
 */
export const MpMoney = z.union([z.string(), z.number()]).transform(amountFrom).nullish().catch(null)

export const MpDate = z
  .string()
  .transform((text) => new Date(text))
  .refine((date) => date.getTime() >= 0 && date.getUTCFullYear() <= 9999)
  .nullish()
  .catch(null)

/** The largest integer of the database's columns. */
const MpCount = MpNumber.pipe(z.number().max(2_147_483_647)).nullish().catch(null)

const MpCharge = z.object({
  name: MpNote,
  type: MpNote,
  accounts: z.object({ from: MpNote, to: MpNote }).nullish().catch(null),
  amounts: z.object({ original: MpMoney, refunded: MpMoney }).nullish().catch(null),
  metadata: z.object({ mov_detail: MpNote, mov_financial_entity: MpNote }).nullish().catch(null),
})

const MpPaymentFields = z.object({
  id: MpId,
  status: z.string().min(1),
  status_detail: MpNote,
  operation_type: MpNote,
  currency_id: MpNote,
  external_reference: MpNote,
  date_created: MpDate,
  date_approved: MpDate,
  date_last_updated: MpDate,
  money_release_date: MpDate,
  money_release_status: MpNote,
  transaction_amount: MpMoney,
  transaction_amount_refunded: MpMoney,
  transaction_details: z
    .object({ net_received_amount: MpMoney, total_paid_amount: MpMoney })
    .nullish()
    .catch(null),
  payment_type_id: MpNote,
  payment_method_id: MpNote,
  installments: MpCount,
  pos_id: MpNote,
  store_id: MpNote,
  point_of_interaction: z
    .object({ type: MpNote, device: z.object({ serial_number: MpNote }).nullish().catch(null) })
    .nullish()
    .catch(null),
  additional_info: z.object({ poi_id: MpNote }).nullish().catch(null),
  order: z.object({ id: MpNote }).nullish().catch(null),
  fee_details: z
    .array(z.object({ type: MpNote, amount: MpMoney, fee_payer: MpNote }))
    .nullish()
    .catch(null),
  charges_details: z.array(MpCharge).nullish().catch(null),
  refunds: z
    .array(z.object({ id: MpNote, amount: MpMoney, status: MpNote, date_created: MpDate }))
    .nullish()
    .catch(null),
})

const MpPaymentRow = z.preprocess(storable, MpPaymentFields)

/** What is read of a row that cannot be read as a payment. */
const MpUnreadableRow = z.preprocess(
  storable,
  z
    .object({
      id: MpId.nullish().catch(null),
      status: z.string().nullish().catch(null),
      external_reference: MpNote,
      date_created: MpDate,
      date_approved: MpDate,
      date_last_updated: MpDate,
      pos_id: MpNote,
      store_id: MpNote,
      order: z.object({ id: MpNote }).nullish().catch(null),
    })
    .catch({}),
)

const MpPaymentSearch = z.object({
  results: z.array(z.unknown()),
  paging: z.object({ total: MpCount }).nullish().catch(null),
})

/** Payments of an account: a search, which lags, and the read of one payment. */
export function createPayments(client: ProviderClient): Provider['payments'] {
  return {
    async search(token, { range, from, to, mpStoreId, mpPosId, limit, offset }, options) {
      const found = await client.call({
        operation: 'payment.search',
        method: 'GET',
        path: '/v1/payments/search',
        query: {
          range,
          begin_date: from.toISOString(),
          end_date: to.toISOString(),
          sort: range,
          criteria: 'asc',
          store_id: mpStoreId,
          pos_id: mpPosId,
          limit,
          offset,
        },
        token,
        schema: MpPaymentSearch,
        options,
      })
      return { ...rowsFrom(found.results), total: found.paging?.total ?? null }
    },
    async get(token, paymentId, options) {
      const payment = await client.call({
        operation: 'payment.read',
        method: 'GET',
        path: `/v1/payments/${segment(paymentId)}`,
        token,
        schema: MpPaymentRow,
        accept: (row) => row.id === paymentId && whyUnreadable(row) === null,
        options,
      })
      return paymentRowFrom(payment)
    },
  }
}

function rowsFrom(rows: readonly unknown[]) {
  const payments: ProviderPayment[] = []
  const unreadable: UnreadablePayment[] = []
  for (const raw of rows) {
    const parsed = MpPaymentRow.safeParse(raw)
    const why = parsed.success
      ? (whyUnreadable(parsed.data) ?? whyUndated(parsed.data))
      : String(parsed.error.issues[0]?.path[0] ?? 'row')
    if (parsed.success && why === null) payments.push(paymentRowFrom(parsed.data))
    else unreadable.push(unreadableFrom(raw, why ?? 'row'))
  }
  return { payments, unreadable, rows: rows.length }
}

/** The name of an amount that cannot be read. If it were ignored, a refund would stay unseen. */
function whyUnreadable(row: z.output<typeof MpPaymentRow>): string | null {
  const isOdd = (amount: ProviderAmount | null | undefined) =>
    amount?.cents === null && amount.text !== null
  if (isOdd(row.transaction_amount_refunded)) return 'transaction_amount_refunded'
  if (row.refunds?.some(({ amount }) => isOdd(amount))) return 'refunds.amount'
  return null
}

function whyUndated(row: z.output<typeof MpPaymentRow>): string | null {
  const hasDate = Boolean(row.date_approved ?? row.date_created)
  return hasDate || endedUnpaid(row.status) ? null : 'date_created'
}

function unreadableFrom(raw: unknown, why: string): UnreadablePayment {
  const row = MpUnreadableRow.parse(raw)
  return {
    paymentId: row.id ?? null,
    digest: createHash('sha256').update(canonicalJson(raw)).digest('hex'),
    status: row.status ?? null,
    why,
    externalReference: row.external_reference ?? null,
    mpOrderId: row.order?.id ?? null,
    mpPosId: row.pos_id ?? null,
    mpStoreId: row.store_id ?? null,
    at: row.date_approved ?? row.date_created ?? null,
    updatedAt: row.date_last_updated ?? null,
  }
}

/** PostgreSQL accepts neither a NUL nor half a surrogate pair in a text. */
function storable(raw: unknown): unknown {
  const text = JSON.stringify(raw)
  if (text === undefined || !/\\u0000|\\ud[89a-f]/i.test(text)) return raw
  return JSON.parse(text, (_name, value: unknown) =>
    typeof value === 'string' ? value.replaceAll('\0', '\ufffd').toWellFormed() : value,
  )
}

function paymentRowFrom(payment: z.output<typeof MpPaymentRow>): ProviderPayment {
  const none: ProviderAmount = { text: null, cents: null }
  return {
    paymentId: payment.id,
    status: payment.status,
    statusDetail: payment.status_detail ?? null,
    operationType: payment.operation_type ?? null,
    channel: payment.point_of_interaction?.type ?? null,
    // Public projects that read the wire find the terminal's serial number here, also where box and store are null.
    terminalSerial:
      payment.point_of_interaction?.device?.serial_number ??
      payment.additional_info?.poi_id ??
      null,
    currency: payment.currency_id ?? null,
    externalReference: payment.external_reference ?? null,
    mpOrderId: payment.order?.id ?? null,
    mpPosId: payment.pos_id ?? null,
    mpStoreId: payment.store_id ?? null,
    amount: payment.transaction_amount ?? none,
    refunded: payment.transaction_amount_refunded ?? none,
    paid: payment.transaction_details?.total_paid_amount ?? none,
    net: payment.transaction_details?.net_received_amount ?? none,
    methodType: payment.payment_type_id ?? null,
    methodId: payment.payment_method_id ?? null,
    installments: payment.installments ?? null,
    createdAt: payment.date_created ?? null,
    approvedAt: payment.date_approved ?? null,
    updatedAt: payment.date_last_updated ?? null,
    releaseAt: payment.money_release_date ?? null,
    releaseStatus: payment.money_release_status ?? null,
    fees: (payment.fee_details ?? []).map((fee) => ({
      name: fee.type ?? null,
      payer: fee.fee_payer ?? null,
      amount: fee.amount ?? none,
    })),
    charges: (payment.charges_details ?? []).map((charge) => ({
      name: charge.name ?? null,
      type: charge.type ?? null,
      from: charge.accounts?.from ?? null,
      to: charge.accounts?.to ?? null,
      detail: charge.metadata?.mov_detail ?? null,
      entity: charge.metadata?.mov_financial_entity ?? null,
      amount: charge.amounts?.original ?? none,
      refunded: charge.amounts?.refunded ?? none,
    })),
    refunds: (payment.refunds ?? []).map((refund) => ({
      id: refund.id ?? null,
      status: refund.status ?? null,
      amount: refund.amount ?? none,
      at: refund.date_created?.toISOString() ?? null,
    })),
  }
}

function amountFrom(amount: string | number): ProviderAmount {
  const text = String(amount)
  return { text, cents: signedCents(text) ?? null }
}
