import { backUp } from '../support/database.ts'
import { payByCard } from '../support/till.ts'
import { chargeUntilKnown, newSale, readSale, refundUntilKnown } from './sale.ts'
import {
  addFaults,
  buyer,
  type LogicalRefund,
  onTerminal,
  removeFaults,
  type Sale,
  type SimulatedTill,
} from './simulated-till.ts'
import type { Testbed } from './testbed.ts'

/** What one till did before and after the backup that is restored. */
type TillAcrossRestore = {
  till: SimulatedTill
  known: Sale
  knownId: string | undefined
  /** Made after the backup. */
  sale: Sale | undefined
  key: string | undefined
  refund: (LogicalRefund & { key: string }) | undefined
}

/**
 * Every till makes a sale, a backup is made, every till charges or refunds once more, and the backup is restored: the
 * processes restart, and the tills repeat their last requests, or not.
 */
export async function playRestored(
  testbed: Testbed,
  tills: readonly SimulatedTill[],
): Promise<void> {
  const [first] = tills
  if (!first) return
  const entries = await Promise.all(tills.map(sellBefore))
  const restore = await backUp(testbed.database)
  await Promise.all(entries.map(sellAfter))
  await testbed.passTime(1_000)
  await restore()
  for (const { till } of entries) dropReported(till)
  if (first.draw.maybe('payments read before the tills come', 0.5)) await readPayments(testbed)
  await Promise.all(entries.map(repeat))
  await readPayments(testbed)
  for (let round = 0; round < 3; round += 1) await testbed.passTime(3_000)
  await Promise.all(entries.map(({ till, known }) => readSale(till, known, 'last')))
}

async function sellBefore(till: SimulatedTill): Promise<TillAcrossRestore> {
  const known = newSale(till, 'known')
  await chargeUntilKnown(till, known, undefined, 'known')
  await pay(till)
  await readSale(till, known, 'known is paid')
  const knownId = known.lastOrderId
  return { till, known, knownId, sale: undefined, key: undefined, refund: undefined }
}

async function sellAfter(entry: TillAcrossRestore): Promise<void> {
  const { till, known, knownId } = entry
  const { draw } = till
  if (draw.maybe('refunds', 0.5) && knownId !== undefined) {
    const amountCents = draw.maybe('in part', 0.5) ? Math.floor(known.amountCents / 3) : null
    entry.refund = {
      orderId: knownId,
      amountCents,
      reported: 'unknown',
      key: `${known.reference}-R`,
    }
    await refundUntilKnown(till, entry.refund, entry.refund.key, 'refund')
    return
  }
  const sale = newSale(till, 'forgotten')
  entry.sale = sale
  entry.key = draw.maybe('keyed', 0.5) ? `${sale.reference}-1` : undefined
  if (draw.maybe('lost', 0.3)) {
    await addFaults(till, { path: '^/v1/orders$', method: 'POST', kind: 'drop_after', count: 20 })
  }
  await chargeUntilKnown(till, sale, entry.key, 'forgotten')
  await removeFaults(till)
  if (draw.maybe('paid', 0.7)) await pay(till)
}

/** Answers after the backup do not bind the restored service. */
function dropReported(till: SimulatedTill): void {
  till.history.push('the backup is restored')
  till.isRestored = true
  till.reportedOutcomes = []
  till.acceptedCancels = []
  for (const sale of till.sales) {
    sale.ordersByKey.clear()
    sale.canceled.clear()
    sale.openCancels.clear()
    sale.denial = undefined
    if (sale !== till.sales[0]) sale.lastOrderId = undefined
  }
}

async function repeat({ till, known, sale, key, refund }: TillAcrossRestore): Promise<void> {
  const { draw } = till
  const isRepeated = draw.maybe('repeats', 0.7)
  if (sale && isRepeated) await chargeUntilKnown(till, sale, key, 'repeated')
  if (sale) await pay(till)
  if (!refund) return
  if (isRepeated) {
    const outcome = await refundUntilKnown(till, refund, refund.key, 'repeated')
    // A total refund is refused since it was made already.
    refund.reported = outcome === 'refused' ? 'unknown' : outcome
    known.refunds.push(refund)
    return
  }
  // The till does not repeat it: it is like one that was made in the panel.
  for (const order of till.testbed.providerOrders(till.firstOrder)) {
    if (order.user_id !== till.shop.mpUserId) continue
    for (const { id } of order.refunds) till.panelRefunds.add(String(id))
  }
}

async function pay(till: SimulatedTill): Promise<void> {
  const waiting = onTerminal(till)
  if (waiting) await buyer(till, waiting, payByCard)
}

/** The next read of payments. */
async function readPayments(testbed: Testbed): Promise<void> {
  await testbed.passTime(240_000)
  await testbed.services[0].paymentWatch.watchOnce()
}
