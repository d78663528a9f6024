import type { ClosingLine } from '../../domain/closing.ts'
import { findKeyById } from '../../repositories/api-keys/api-key-queries.ts'
import type { ClosingRow } from '../../repositories/closings/closing-queries.ts'
import { findPerson } from '../../repositories/people/people-queries.ts'
import { findStore, listPosOfStore } from '../../repositories/stores/store-queries.ts'
import type { PaymentDeps } from '../deps.ts'
import type { PairedCharge } from './compare-charges.ts'
import { compareClosing } from './compare-closing.ts'

/** A charge of a closing for its files: both sides in cents, null where a side has nothing. */
export type ListedCharge = {
  at: Date
  cajaId: string | null
  reference: string | null
  orderId: string | null
  paymentId: string | null
  method: string | null
  installments: number | null
  here: { cents: number; refundedCents: number } | null
  there: { cents: number | null; refundedCents: number; netCents: number | null } | null
  /** What differs in it, as the closing says. */
  line: ClosingLine | null
}

export type ClosingNames = {
  /** Null for a store that is not there any more. */
  storeName: string | null
  /** By caja_id. */
  boxNames: ReadonlyMap<string, string>
  signedBy: string | null
}

/**
 * Every charge of a closing's span by the records of both sides at this moment, oldest first, with what the closing says of it; and
 * what differs without a charge. A signed closing keeps its lines, while its charges show what became of them.
 */
export async function listCharges(deps: PaymentDeps, closing: ClosingRow): Promise<ListedCharge[]> {
  const { charges } = await compareClosing(deps, closing)
  const open = new Set(closing.lines.filter(({ counted }) => counted === undefined))
  const byOrder = linesBy(closing.lines, ({ orderId }) => orderId)
  const byPayment = linesBy(closing.lines, ({ paymentId }) => paymentId)
  const lineOf = (orderId: string | undefined, paymentId: string | undefined) => {
    const alike = [byOrder.get(orderId ?? ''), byPayment.get(paymentId ?? '')].flat()
    const line = alike.find((one) => one !== undefined && open.has(one))
    if (line) open.delete(line)
    return line ?? null
  }
  const listed = charges.flatMap((pair) => rowsOf(pair, lineOf))
  for (const line of open) listed.push(rowOfLine(line))
  return listed.sort((a, b) => a.at.getTime() - b.at.getTime())
}

function linesBy(
  lines: readonly ClosingLine[],
  idOf: (line: ClosingLine) => string | null,
): Map<string, ClosingLine[]> {
  return Map.groupBy(
    lines.filter((line) => idOf(line) !== null),
    (line) => idOf(line) as string,
  )
}

function rowsOf(
  { our, theirs }: PairedCharge,
  lineOf: (orderId: string | undefined, paymentId: string | undefined) => ClosingLine | null,
): ListedCharge[] {
  const rowOfPayment = (their: PairedCharge['theirs'][number]) => ({
    at: their.sold_at,
    cajaId: their.caja_id,
    reference: null,
    orderId: null,
    paymentId: their.payment_id,
    method: their.method_type,
    installments: their.installments,
    here: null,
    there: sideOf(their),
    line: lineOf(undefined, their.payment_id),
  })
  if (!our) return theirs.map(rowOfPayment)
  const [first, ...others] = theirs
  const row = {
    at: first?.sold_at ?? our.createdAt,
    cajaId: our.cajaId,
    reference: our.reference,
    orderId: our.orderId,
    paymentId: first?.payment_id ?? our.paymentIds[0] ?? null,
    method: our.method ?? first?.method_type ?? null,
    installments: first?.installments ?? our.installments,
    here: our.paidCents > 0 ? { cents: our.paidCents, refundedCents: our.refundedCents } : null,
    there: first ? sideOf(first) : null,
    line: lineOf(our.orderId, first?.payment_id),
  }
  return [row, ...others.map(rowOfPayment)]
}

function sideOf(their: PairedCharge['theirs'][number]) {
  const { amount_cents: cents, refunded_cents: refundedCents, net_cents: netCents } = their
  return { cents, refundedCents, netCents }
}

function rowOfLine(line: ClosingLine): ListedCharge {
  const { here, there } = line
  return {
    at: new Date((there ?? here)?.at ?? 0),
    cajaId: here?.cajaId ?? there?.cajaId ?? null,
    reference: line.reference,
    orderId: line.orderId,
    paymentId: line.paymentId,
    method: here?.method ?? there?.method ?? null,
    installments: null,
    here: here && { cents: here.cents ?? 0, refundedCents: here.refundedCents },
    there: there && { cents: there.cents, refundedCents: there.refundedCents, netCents: null },
    line,
  }
}

/** What people call the store and boxes of a closing, and who signed it: the person, or the key; null for the administrator. */
export async function describeClosing(
  { database: { db } }: PaymentDeps,
  { client, sucursal_id: storeId, signed_by: signer }: ClosingRow,
): Promise<ClosingNames> {
  const store = await findStore(db, client, storeId)
  const boxes = store ? await listPosOfStore(db, client, store.id) : []
  const key = signer === null ? undefined : await findKeyById(db, signer)
  const person = signer === null || key ? undefined : await findPerson(db, undefined, signer)
  return {
    storeName: store?.name ?? null,
    boxNames: new Map(boxes.map((box) => [box.external_id, box.name])),
    signedBy: key ? (key.description ?? key.key_mask) : (person?.name ?? null),
  }
}
