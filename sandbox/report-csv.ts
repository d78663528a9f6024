import { formatCents } from './amounts.ts'
import {
  chargesOf,
  isPaidEntry,
  type PaymentEntry,
  releaseAtOf,
  stamp,
  zoneMinutes,
} from './payment-view.ts'
import type { Report, ReportConfig, ReportKind } from './rows.ts'
import type { Context } from './sandbox-context.ts'

/** The columns of a report when the shop has not chosen any (provider facts 6). */
const usualColumns: Record<ReportKind, readonly string[]> = {
  settlement: [
    'EXTERNAL_REFERENCE',
    'SOURCE_ID',
    'ORDER_MP',
    'POS_ID',
    'TRANSACTION_TYPE',
    'TRANSACTION_AMOUNT',
    'TRANSACTION_DATE',
    'FEE_AMOUNT',
    'FINANCING_FEE_AMOUNT',
    'TAXES_AMOUNT',
    'TAXES_DISAGGREGATED',
    'SETTLEMENT_NET_AMOUNT',
    'INSTALLMENTS',
    'MONEY_RELEASE_DATE',
    'IS_RELEASED',
  ],
  release: [
    'DATE',
    'SOURCE_ID',
    'EXTERNAL_REFERENCE',
    'RECORD_TYPE',
    'DESCRIPTION',
    'NET_CREDIT_AMOUNT',
    'NET_DEBIT_AMOUNT',
    'GROSS_AMOUNT',
    'MP_FEE_AMOUNT',
    'BALANCE_AMOUNT',
    'ORDER_MP',
  ],
}

const hourMs = 3_600_000

/** The end of the local day of a time: a report is extended to it. */
export function endOfDay(ms: number, zone = 'GMT-04'): number {
  const offsetMs = zoneMinutes(zone) * 60_000
  const day = Math.floor((ms + offsetMs) / (24 * hourMs))
  return (day + 1) * 24 * hourMs - offsetMs - 1
}

/** The file of a report, with the separators and the three forms of lists of taxes that real files have. */
export function reportCsv(
  ctx: Context,
  report: Report,
  entries: readonly PaymentEntry[],
  config: ReportConfig,
): string {
  const separator = config.separator ?? ','
  const columns = config.columns?.map(({ key }) => key) ?? usualColumns[report.kind]
  const paid = entries.filter(isPaidEntry)
  const rows =
    report.kind === 'settlement'
      ? paid.flatMap((entry) => settlementRows(ctx, entry, config))
      : releaseRows(paid, report, config)
  const inTime = rows.filter(({ at }) => at >= report.beginMs && at <= report.endMs)
  const jsonCells = config.json_cells ?? 'bare'
  const cell = (text: string) => {
    const isJson = text.startsWith('[')
    if (isJson && jsonCells === 'undoubled') return `"${text}"`
    const isQuoted = isJson ? jsonCells === 'doubled' : text.includes(separator)
    return isQuoted ? `"${text.replaceAll('"', '""')}"` : text
  }
  const lines = inTime
    .toSorted((a, b) => a.at - b.at)
    .map(({ values }) => columns.map((name) => cell(values[name] ?? '')).join(separator))
  return [columns.join(separator), ...lines, ''].join('\r\n')
}

type Row = { at: number; values: Record<string, string> }

function settlementRows(ctx: Context, entry: PaymentEntry, config: ReportConfig): Row[] {
  const { fee, financing, taxes, net } = costsOf(entry)
  const releaseAt = releaseAtOf(entry)
  const common = {
    EXTERNAL_REFERENCE: entry.externalReference ?? '',
    SOURCE_ID: String(entry.id),
    ORDER_MP: entry.orderId ?? '',
    POS_ID: entry.posId === null ? '' : String(entry.posId),
  }
  const sale: Row = {
    at: entry.createdAt,
    values: {
      ...common,
      TRANSACTION_TYPE: 'SETTLEMENT',
      TRANSACTION_AMOUNT: formatCents(entry.amountCents),
      TRANSACTION_DATE: stamp(entry.createdAt, config.display_timezone),
      FEE_AMOUNT: signed(-fee),
      FINANCING_FEE_AMOUNT: signed(-financing),
      TAXES_AMOUNT: signed(-taxes.reduce((sum, { cents }) => sum + cents, 0)),
      TAXES_DISAGGREGATED: taxesCell(taxes, config),
      METADATA: '[{}]',
      SETTLEMENT_NET_AMOUNT: signed(net),
      INSTALLMENTS: String(entry.method.installments),
      MONEY_RELEASE_DATE: stamp(releaseAt, config.display_timezone),
      IS_RELEASED: String(releaseAt <= ctx.nowMs()),
    },
  }
  const given = entry.refunds.filter(({ status }) => status === 'approved')
  const refunds = given.map(
    ({ amountCents, at }): Row => ({
      at,
      values: {
        ...common,
        TRANSACTION_TYPE: 'REFUND',
        TRANSACTION_AMOUNT: signed(-amountCents),
        TRANSACTION_DATE: stamp(at, config.display_timezone),
        FEE_AMOUNT: '0.00',
        FINANCING_FEE_AMOUNT: '0.00',
        TAXES_AMOUNT: '0.00',
        SETTLEMENT_NET_AMOUNT: signed(-amountCents),
        IS_RELEASED: 'true',
      },
    }),
  )
  return [sale, ...refunds, ...disputeRows(ctx, entry, common, config)]
}

/** A charge-back takes back the whole charge with fee and taxes. If the shop wins it, the charge is stated again. */
function disputeRows(
  ctx: Context,
  entry: PaymentEntry,
  common: Record<string, string>,
  config: ReportConfig,
): Row[] {
  const { fee, financing, taxes } = costsOf(entry)
  const taxCents = taxes.reduce((sum, { cents }) => sum + cents, 0)
  const cases = [...ctx.state.tables.chargebacks.values()].filter(
    ({ paymentId }) => paymentId === entry.id,
  )
  const row = (type: string, at: number, sign: number, cents: number): Row => {
    const isAll = cents === entry.amountCents
    const part = (kept: number) => (isAll ? -sign * kept : 0)
    const net = sign * cents + part(fee) + part(financing) + part(taxCents)
    return {
      at,
      values: {
        ...common,
        TRANSACTION_TYPE: type,
        TRANSACTION_AMOUNT: signed(sign * cents),
        TRANSACTION_DATE: stamp(at, config.display_timezone),
        FEE_AMOUNT: signed(part(fee)),
        FINANCING_FEE_AMOUNT: signed(part(financing)),
        TAXES_AMOUNT: signed(part(taxCents)),
        SETTLEMENT_NET_AMOUNT: signed(net),
        IS_RELEASED: 'true',
      },
    }
  }
  return cases.flatMap(({ openedAt, decidedAt, coverageApplied, amountCents }) => [
    row('CHARGEBACK', openedAt, -1, amountCents),
    ...(coverageApplied === true && decidedAt !== null
      ? [row('CHARGEBACK_CANCEL', decidedAt, 1, amountCents)]
      : []),
  ])
}

function taxesCell(
  taxes: ReturnType<typeof costsOf>['taxes'],
  { json_cells: jsonCells = 'bare' }: ReportConfig,
): string {
  const parts = taxes.map(({ name, entity, cents }) => ({
    financial_entity: entity,
    amount: signed(-cents),
    detail: name,
  }))
  if (jsonCells === 'bare') {
    const members = (part: object) =>
      Object.entries(part).map(([name, value]) => `${name}:${value}`)
    return `[${parts.map((part) => `{${members(part)}}`).join(',')}]`
  }
  return `[${parts.map((part) => JSON.stringify(part)).join(', ')}]`
}

/** Money that became available, between the balances before and after it. */
function releaseRows(
  entries: readonly PaymentEntry[],
  report: Report,
  config: ReportConfig,
): Row[] {
  const releases = entries
    .map((entry) => ({ entry, at: releaseAtOf(entry) }))
    .filter(({ at }) => at >= report.beginMs && at <= report.endMs)
    .toSorted((a, b) => a.at - b.at)
  const balance = (at: number, type: string, credit: string, cents: number): Row => ({
    at,
    values: {
      DATE: stamp(at, config.display_timezone),
      RECORD_TYPE: type,
      NET_CREDIT_AMOUNT: credit,
      NET_DEBIT_AMOUNT: '0.00',
      BALANCE_AMOUNT: signed(cents),
    },
  })
  let available = 0
  const rows = releases.map(({ entry, at }): Row => {
    const { fee, financing, net } = costsOf(entry)
    available += net
    return {
      at,
      values: {
        DATE: stamp(at, config.display_timezone),
        SOURCE_ID: String(entry.id),
        EXTERNAL_REFERENCE: entry.externalReference ?? '',
        RECORD_TYPE: 'release',
        DESCRIPTION: 'payment',
        NET_CREDIT_AMOUNT: signed(net),
        NET_DEBIT_AMOUNT: '0.00',
        GROSS_AMOUNT: formatCents(entry.amountCents),
        MP_FEE_AMOUNT: signed(-fee - financing),
        BALANCE_AMOUNT: signed(available),
        ORDER_MP: entry.orderId ?? '',
      },
    }
  })
  return [
    balance(report.beginMs, 'initial_available_balance', '0.00', 0),
    ...rows,
    balance(report.endMs, 'total', signed(available), available),
  ]
}

function costsOf(entry: PaymentEntry) {
  const own = chargesOf(entry).filter(({ payer }) => !payer)
  const sum = (fits: (charge: (typeof own)[number]) => boolean) =>
    own.filter(fits).reduce((total, { cents }) => total + cents, 0)
  const taxes = own.filter(({ type }) => type === 'tax')
  return {
    fee: sum(({ name }) => name === 'mp_processing_fee'),
    financing: sum(({ name }) => name === 'mp_financing_fee'),
    taxes,
    net: entry.amountCents - sum(() => true),
  }
}

function signed(cents: number): string {
  return cents < 0 ? `-${formatCents(-cents)}` : formatCents(Math.abs(cents))
}
