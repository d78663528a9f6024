import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { createGunzip, createGzip } from 'node:zlib'
import type { Trx } from '../../db/database.ts'
import { createTurns } from '../../db/event-loop-pauses.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { changesBetween } from '../../domain/event-types.ts'
import { addCents, isOwn } from '../../domain/money.ts'
import { insertEvent } from '../../repositories/events/event-log.ts'
import { findLinksOfPayments } from '../../repositories/provider-payments/provider-payments.ts'
import {
  findOrdersOfReport,
  findSettlementRows,
  insertSettlementRows,
  isFileKnown,
  keepSettlementFile,
  lockReportsOf,
  markSeen,
  type SettlementFileRow,
  type SettlementRow,
  updateSettlementRows,
} from '../../repositories/settlements/settlement-queries.ts'
import type { PaymentDeps } from '../deps.ts'
import { parseReport, ReportError, type ReportKind, type ReportLine } from './parse-report.ts'
import { updateNetAmounts } from './update-net-amounts.ts'

type TakeDeps = Pick<PaymentDeps, 'database' | 'now'>

export type ImportedReport = {
  file: SettlementFileRow
  /** Movements of the file: new ones, changed ones, and those without an order here. */
  rows: number
  added: number
  changed: number
  withoutOrder: number
}

type ReportToTake = {
  origin: SettlementFileRow['origin']
  name: string | null
  /** The offset of times without one; the provider's if it is not given. */
  offset?: string | undefined
  /** Further writes in the transaction that stores the report, such as its audit entry. */
  along: (trx: Trx, taken: ImportedReport) => Promise<void>
}

/** Lines per transaction: on the embedded database charges wait for it. */
const linesAtOnce = 100
/** Lines of one SOURCE_ID stay together, since each transaction reads its known movements. */
const mostLinesAtOnce = 500
/** A payment has some twenty movements. Each line is compared with the known ones of its SOURCE_ID. */
const mostOfSource = 2_000
const longestTurnMs = 20

/**
 * Stores a report from a text: completely, or not at all when it cannot be read (ReportError). Reading it again changes nothing,
 * and another report with the same movements adds nothing.
 */
export async function importReportText(
  deps: TakeDeps,
  client: ClientName,
  text: string,
  about: ReportToTake,
): Promise<ImportedReport> {
  const lines: ReportLine[] = []
  const counts = new Map<string, number>()
  const turn = createTurns(longestTurnMs)
  let report: ReportKind = 'settlement'
  const onHeader = (kind: ReportKind) => {
    report = kind
  }
  for await (const line of parseReport([text], about.offset, onHeader)) {
    const count = (counts.get(line.sourceId) ?? 0) + 1
    counts.set(line.sourceId, count)
    if (count > mostOfSource) throw new ReportError(tooManyText(line))
    lines.push(line)
    await turn()
  }
  // Lines of one SOURCE_ID together: then one batch reads its known movements, instead of all.
  lines.sort((a, b) => (a.sourceId < b.sourceId ? -1 : a.sourceId > b.sourceId ? 1 : 0))
  const digest = createHash('sha256').update(text).digest('hex')
  const isKnown = await isFileKnown(deps.database.db, { client, report, digest })
  const taken = await takeLines(deps, client, lines, isKnown)
  return keep(deps, client, about, { report, digest, taken })
}

function tooManyText({ line, sourceId }: ReportLine): string {
  return `line ${line}: SOURCE_ID ${sourceId.slice(0, 64)} stands in more than ${mostOfSource.toLocaleString('en-US')} lines`
}

/**
 * Stores a report from a stream: completely, or not at all when it breaks off or cannot be read (ReportError). It is read twice,
 * first without writing. Between the two reads it is stored compressed, about a tenth of its size.
 */
export async function importReportStream(
  deps: TakeDeps,
  client: ClientName,
  parts: AsyncIterable<string>,
  about: ReportToTake,
): Promise<ImportedReport> {
  const digest = createHash('sha256')
  const zip = createGzip()
  const zipped = buffer(zip)
  zipped.catch(() => undefined)
  const counted = (async function* () {
    for await (const part of parts) {
      digest.update(part)
      if (!zip.write(part)) await once(zip, 'drain')
      yield part
    }
  })()
  try {
    let report: ReportKind = 'settlement'
    const onHeader = (kind: ReportKind) => {
      report = kind
    }
    for await (const _ of parseReport(counted, about.offset, onHeader));
    zip.end()
    const text = Readable.from([await zipped])
      .pipe(createGunzip())
      .setEncoding('utf8')
    const file = { report, digest: digest.digest('hex') }
    const isKnown = await isFileKnown(deps.database.db, { client, ...file })
    const taken = await takeLines(deps, client, parseReport(text, about.offset), isKnown)
    return await keep(deps, client, about, { ...file, taken })
  } finally {
    zip.destroy()
  }
}

type Taken = Omit<ImportedReport, 'file'> & {
  totals: SettlementFileRow['totals']
  from: Date | null
  to: Date | null
}

async function keep(
  deps: TakeDeps,
  client: ClientName,
  about: ReportToTake,
  { report, digest, taken }: { report: ReportKind; digest: string; taken: Taken },
): Promise<ImportedReport> {
  const now = deps.now()
  const { totals, from, to, ...counts } = taken
  return deps.database.transaction(async (trx) => {
    const file = await keepSettlementFile(trx, {
      id: randomUUID(),
      client,
      report,
      origin: about.origin,
      name: about.name,
      digest,
      rows: counts.rows,
      added: counts.added,
      totals: JSON.stringify(totals),
      from_at: from,
      to_at: to,
      created_at: now,
      last_read_at: now,
    })
    if (file.readings === 1) {
      await insertEvent(trx, {
        client,
        sucursalId: null,
        cajaId: null,
        type: 'settlement.recorded',
        at: now,
        resource: { type: 'settlement', id: file.id, version: null },
        orderId: null,
        changes: changesBetween({}, { rows: file.rows, net_cents: totals.netCents }),
        data: null,
      })
    }
    const kept = { file, ...counts }
    await about.along(trx, kept)
    return kept
  })
}

async function takeLines(
  deps: TakeDeps,
  client: ClientName,
  lines: AsyncIterable<ReportLine> | Iterable<ReportLine>,
  isKnown: boolean,
): Promise<Taken> {
  const reading = randomUUID()
  const taken: Taken = {
    rows: 0,
    added: 0,
    changed: 0,
    withoutOrder: 0,
    totals: { grossCents: 0, feeCents: 0, financingCents: 0, taxesCents: 0, netCents: 0 },
    from: null,
    to: null,
  }
  let batch: ReportLine[] = []
  const takeBatch = async () => {
    if (batch.length === 0) return
    const done = await deps.database.transaction((trx) =>
      takeBatchIn(trx, client, batch, { reading, now: deps.now(), isKnown }),
    )
    taken.added += done.added
    taken.changed += done.changed
    taken.withoutOrder += done.withoutOrder
    batch = []
  }
  for await (const line of lines) {
    taken.rows += 1
    addTo(taken.totals, line)
    if (line.at && (!taken.from || line.at < taken.from)) taken.from = line.at
    if (line.at && (!taken.to || line.at > taken.to)) taken.to = line.at
    const isOther = batch.at(-1)?.sourceId !== line.sourceId
    if ((isOther && batch.length >= linesAtOnce) || batch.length >= mostLinesAtOnce)
      await takeBatch()
    batch.push(line)
  }
  await takeBatch()
  return taken
}

/** Deductions from the gross are negative in a line, and positive in the totals. */
function addTo(totals: Taken['totals'], line: ReportLine): void {
  totals.grossCents = addCents(totals.grossCents, line.grossCents ?? 0)
  totals.feeCents = addCents(totals.feeCents, -(line.feeCents ?? 0))
  totals.financingCents = addCents(totals.financingCents, -(line.financingCents ?? 0))
  totals.taxesCents = addCents(totals.taxesCents, -(line.taxesCents ?? 0))
  totals.netCents = addCents(totals.netCents, line.netCents)
}

/** `isKnown`: the file was read before, completely. A newer one may have changed its movements since. */
type Reading = { reading: string; now: Date; isKnown: boolean }

/**
 * Finds the known movement of each line. Each movement matches one line of a file, so that two equal ones stay two. Columns
 * that a report does not have keep the value of another report. Of a known file only orders that were found since are added.
 */
async function takeBatchIn(
  trx: Trx,
  client: ClientName,
  lines: readonly ReportLine[],
  { reading, now, isKnown }: Reading,
): Promise<{ added: number; changed: number; withoutOrder: number }> {
  await lockReportsOf(trx, client)
  const report = lines[0]?.report ?? 'settlement'
  const sourceIds = [...new Set(lines.map(({ sourceId }) => sourceId))]
  const known = await findSettlementRows(trx, client, report, { sourceIds, reading })
  const meets = matchLines(lines, known)
  const orderOf = await ordersOf(trx, client, lines)
  const fresh: SettlementRow[] = []
  const changed: SettlementRow[] = []
  const orderIds = new Set<string>()
  let withoutOrder = 0
  for (const line of lines) {
    const row = meets.get(line)
    const orderId = orderOf(line) ?? row?.order_id ?? null
    if (orderId === null) withoutOrder += 1
    else orderIds.add(orderId)
    if (isKnown && !row) continue
    const next =
      isKnown && row
        ? { ...row, order_id: row.order_id ?? orderId, last_updated_at: now }
        : rowOf(client, line, row, orderId, { reading, now })
    if (!row) fresh.push(next)
    else if (contentOf(next) !== contentOf(row)) changed.push(next)
  }
  await insertSettlementRows(trx, fresh)
  await updateSettlementRows(trx, changed)
  await markSeen(
    trx,
    [...meets.values()].map(({ id }) => id),
    reading,
  )
  await updateNetAmounts(trx, [...orderIds])
  return { added: fresh.length, changed: changed.length, withoutOrder }
}

/** Complete matches first, so that a corrected movement cannot take the place of an unchanged one. */
function matchLines(
  lines: readonly ReportLine[],
  rows: readonly SettlementRow[],
): Map<ReportLine, SettlementRow> {
  const free = Map.groupBy(rows, (row) => keyOf(row.source_id, row.type))
  const meets = new Map<ReportLine, SettlementRow>()
  const rounds: ((line: ReportLine, row: SettlementRow) => boolean)[] = [
    (line, row) => isSameTime(line, row) && isSameAmount(line, row),
    (line, row) => (line.at === null || row.at === null) && isSameAmount(line, row),
    (line, row) => isSettlement(line) && isSameAmount(line, row),
    isSameTime,
  ]
  for (const fits of rounds) {
    for (const line of lines) {
      if (meets.has(line)) continue
      const candidates = free.get(keyOf(line.sourceId, line.type)) ?? []
      const place = candidates.findIndex((row) => isSameDetail(line, row) && fits(line, row))
      const [row] = place < 0 ? [] : candidates.splice(place, 1)
      if (row) meets.set(line, row)
    }
  }
  return meets
}

/** A payment is settled once, so one of equal amounts is the same movement whatever its time, such as that of another time zone. */
function isSettlement({ report, type }: ReportLine): boolean {
  return report === 'settlement' && type === 'SETTLEMENT'
}

function keyOf(sourceId: string, type: string): string {
  return `${sourceId}\n${type}`
}

function isSameDetail(line: ReportLine, row: SettlementRow): boolean {
  return line.detail === row.detail || line.detail === '' || row.detail === ''
}

function isSameTime(line: ReportLine, row: SettlementRow): boolean {
  return line.at !== null && line.at.getTime() === row.at?.getTime()
}

function isSameAmount(line: ReportLine, row: SettlementRow): boolean {
  const isSameGross =
    line.grossCents === null || row.gross_cents === null || line.grossCents === row.gross_cents
  return line.netCents === row.net_cents && isSameGross
}

function rowOf(
  client: ClientName,
  line: ReportLine,
  row: SettlementRow | undefined,
  orderId: string | null,
  { reading, now }: Pick<Reading, 'reading' | 'now'>,
): SettlementRow {
  return {
    id: row?.id ?? randomUUID(),
    client,
    report: line.report,
    source_id: line.sourceId,
    type: line.type,
    detail: line.detail || (row?.detail ?? ''),
    // Of a settlement in another time zone the first time stays.
    at:
      row && isSettlement(line) && isSameAmount(line, row)
        ? (row.at ?? line.at)
        : (line.at ?? row?.at ?? null),
    order_id: orderId,
    mp_order_id: line.mpOrderId ?? row?.mp_order_id ?? null,
    external_reference: line.externalReference ?? row?.external_reference ?? null,
    gross_cents: line.grossCents ?? row?.gross_cents ?? null,
    fee_cents: line.feeCents ?? row?.fee_cents ?? 0,
    financing_cents: line.financingCents ?? row?.financing_cents ?? 0,
    taxes_cents: line.taxesCents ?? row?.taxes_cents ?? 0,
    taxes: line.taxes.length > 0 ? line.taxes : (row?.taxes ?? []),
    net_cents: line.netCents,
    release_on: line.releaseOn ?? row?.release_on ?? null,
    is_released: line.isReleased ?? row?.is_released ?? null,
    installments: line.installments ?? row?.installments ?? null,
    others: Object.keys(line.others).length > 0 ? line.others : (row?.others ?? {}),
    seen_in: reading,
    created_at: row?.created_at ?? now,
    last_updated_at: now,
  }
}

/** The content of a movement as a text, for comparison. */
function contentOf({ seen_in, last_updated_at, ...content }: SettlementRow): string {
  const taxes = content.taxes.map(({ name, entity, cents }) => [name, entity, cents])
  const others = Object.entries(content.others).toSorted()
  return JSON.stringify({ ...content, taxes, others })
}

/**
 * Finds the order of a line: by the provider's id of it, by its payment that was read before, or by its reference when the order
 * itself names that payment.
 */
async function ordersOf(
  trx: Trx,
  client: ClientName,
  lines: readonly ReportLine[],
): Promise<(line: ReportLine) => string | undefined> {
  const mpOrderIds = [...new Set(lines.flatMap(({ mpOrderId }) => mpOrderId ?? []))]
  const references = [...new Set(lines.flatMap((line) => line.externalReference ?? []))]
  const orders = await findOrdersOfReport(trx, client, { mpOrderIds, references })
  const byId = new Map(orders.map((order) => [order.mp_order_id, order.id]))
  const byPayment = new Map(
    orders.flatMap(({ id, payments }) =>
      payments
        .filter(isOwn)
        .flatMap(({ referenceId }) => (referenceId === null ? [] : [[referenceId, id]])),
    ) as [string, string][],
  )
  const sourceIds = [...new Set(lines.map(({ sourceId }) => sourceId))]
  const read = await findLinksOfPayments(trx, client, sourceIds)
  return ({ mpOrderId, sourceId }) => {
    const { order_id: linked, surplus_of: surplusOf } = read.get(sourceId) ?? {}
    // A further payment of an order names that order too, but does not belong to it.
    if (surplusOf != null) return linked ?? undefined
    const named = mpOrderId === null ? undefined : byId.get(mpOrderId)
    return named ?? byPayment.get(sourceId) ?? linked ?? undefined
  }
}
