import type { Trx } from '../../db/database.ts'
import { canonicalJson } from '../../domain/json.ts'
import {
  type Charge,
  type ChargeClass,
  type ClassRule,
  chargebackMovements,
  type NettedPayment,
  netOf,
  netWithDisputes,
  type SettledLine,
} from '../../domain/net-amount.ts'
import { wentThrough } from '../../domain/order-state.ts'
import {
  type ChargeClassRow,
  findPaymentsOfOrders,
  findSettlementsOfOrders,
  listChargeClasses,
  listOrdersWithNet,
  lockOrdersToNet,
  markClassesApplied,
  newestUnappliedClass,
  type PaymentToNet,
  putChargeClass,
  writeNets,
} from '../../repositories/settlements/net-amount-queries.ts'
import type { SettlementRow } from '../../repositories/settlements/settlement-queries.ts'
import { auditFailure, recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { providerDay } from './report-amounts.ts'

/** Computes the net of these orders again, from the stored payments and reports. In the transaction that changed them. */
export async function updateNetAmounts(trx: Trx, orderIds: readonly string[]): Promise<void> {
  if (orderIds.length === 0) return
  const ids = [...new Set(orderIds)]
  const orders = await lockOrdersToNet(trx, ids)
  const rules = (await listChargeClasses(trx)).map(ruleOf)
  const payments = Map.groupBy(await findPaymentsOfOrders(trx, ids), ({ order_id }) => order_id)
  const rows = Map.groupBy(await findSettlementsOfOrders(trx, ids), ({ order_id }) => order_id)
  const nets = orders.flatMap(({ id, paid_cents, net: known }) => {
    const own = rows.get(id) ?? []
    const lines = chargeLines(own)
    const paid = (payments.get(id) ?? []).flatMap(paymentOf)
    const movements = own
      .filter(({ report }) => report === 'settlement')
      .map((row) => ({ type: row.type.toUpperCase(), netCents: row.net_cents }))
    const net = netWithDisputes(netOf(paid_cents, paid, lines, rules), movements)
    return canonicalJson(net) === canonicalJson(known) ? [] : [{ id, net }]
  })
  await writeNets(trx, nets)
}

function ruleOf({ name, entity, class: chargeClass }: ChargeClassRow): ClassRule {
  return { name, entity: entity === '' ? null : entity, chargeClass }
}

function paymentOf(payment: PaymentToNet): NettedPayment[] {
  const { amount_cents: grossCents, release_at: releaseAt } = payment
  if (grossCents === null || !wentThrough(payment.status)) return []
  return [
    {
      grossCents,
      refundedCents: payment.refunded_cents,
      netCents: payment.net_cents,
      charges: chargesOf(payment),
      releaseOn: releaseAt && providerDay(releaseAt),
    },
  ]
}

/** The charges, or where the provider lists none of them the older list of fees, which has no taxes. */
function chargesOf({ charges, fees }: PaymentToNet): Charge[] {
  if (charges.length > 0) {
    return charges.map(({ name, type, detail, entity, from, amount }) => ({
      name: name ?? detail ?? type ?? 'unnamed',
      detail,
      entity,
      from,
      cents: amount.cents ?? 0,
    }))
  }
  return fees.map(({ name, payer, amount }) => ({
    name: name ?? 'unnamed',
    detail: null,
    entity: null,
    from: payer,
    cents: amount.cents ?? 0,
  }))
}

/**
 * The movements of a payment that are the charge itself, without what happened to it later. A dispute that was won repeats the
 * charge: that counts where no report has the charge, or what was deducted from it.
 */
function chargeLines(rows: readonly SettlementRow[]): SettledLine[] {
  const settled = rows.filter(({ report }) => report === 'settlement')
  const has = (word: string) => settled.some(({ type }) => type.toUpperCase() === word)
  const isStatedAgain = !has('SETTLEMENT') && !has(chargebackMovements.taken)
  return rows.flatMap((row) =>
    lineOf(row, isStatedAgain ? chargebackMovements.returned : 'SETTLEMENT'),
  )
}

/** `charge` is the movement type of a settlement report that counts as the charge. */
function lineOf(row: SettlementRow, charge: string): SettledLine[] {
  const type = row.type.toUpperCase()
  const isCharge =
    row.report === 'settlement'
      ? type === charge
      : type === 'RELEASE' && row.detail.toLowerCase() === 'payment'
  if (!isCharge) return []
  return [
    {
      report: row.report,
      grossCents: row.gross_cents,
      feeCents: 0 - row.fee_cents,
      financingCents: 0 - row.financing_cents,
      taxesCents: 0 - row.taxes_cents,
      taxes: row.taxes.map(({ name, entity, cents }) => ({
        name,
        detail: null,
        entity,
        cents: 0 - cents,
      })),
      netCents: row.net_cents,
      releaseOn: row.release_on,
    },
  ]
}

const ordersAtOnce = 500

/**
 * Computes every net with the current rules, newest orders first, until all are done or `untilMs` by `deps.stopwatch`. Returns
 * whether all are done. Rules that are added meanwhile are applied next time.
 */
export async function applyChargeClasses(
  deps: Pick<PaymentDeps, 'database' | 'stopwatch'>,
  untilMs: number,
  signal?: AbortSignal,
): Promise<boolean> {
  const { db } = deps.database
  const asOf = await newestUnappliedClass(db)
  if (asOf === null) return true
  let before: { at: Date; id: string } | null = null
  for (;;) {
    if (signal?.aborted || deps.stopwatch() >= untilMs) return false
    const orders: { id: string; created_at: Date }[] = await listOrdersWithNet(
      db,
      before,
      ordersAtOnce,
    )
    const last = orders.at(-1)
    if (!last) break
    await deps.database.transaction((trx) =>
      updateNetAmounts(
        trx,
        orders.map(({ id }) => id),
      ),
    )
    before = { at: last.created_at, id: last.id }
  }
  await markClassesApplied(db, asOf)
  return true
}

/** How long the request waits for every net to follow a new rule; the rest is computed later. */
const waitMs = 5_000

/** Sets the class of the provider's charges of a name, for every client, and computes the nets again. */
export async function setChargeClass(
  deps: PaymentDeps,
  rule: { name: string; entity: string; class: ChargeClass },
  actor: Actor,
): Promise<{ rule: ChargeClassRow; isApplied: boolean }> {
  const entry = {
    client: null,
    actor,
    action: 'charge_class.set',
    resourceId: rule.name,
    metadata: { entity: rule.entity || null, class: rule.class },
  }
  const row = await auditFailure(deps, entry, () =>
    deps.database.transaction(async (trx) => {
      const put = await putChargeClass(trx, rule, deps.now())
      await recordSuccess(deps, trx, entry)
      return put
    }),
  )
  return { rule: row, isApplied: await applyChargeClasses(deps, deps.stopwatch() + waitMs) }
}
