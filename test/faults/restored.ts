import { backUp } from '../support/database.ts'
import { payByCard } from '../support/till.ts'
import { arm, buyer, heal, type Lane, type LogicalRefund, onTerminal, type Sale } from './lane.ts'
import { chargeUntilKnown, newSale, readSale, refundUntilKnown } from './sale.ts'
import type { World } from './world.ts'

/** One till between a backup and what came after it was restored. */
type Forgotten = {
  lane: Lane
  known: Sale
  knownId: string | undefined
  /** Made after the backup. */
  sale: Sale | undefined
  key: string | undefined
  refund: (LogicalRefund & { key: string }) | undefined
}

/**
 * Every till makes a sale, a backup is taken, every till charges or gives back once more, and the backup is restored: the
 * processes start anew, and the tills repeat what they did last, or not.
 */
export async function playRestored(world: World, lanes: readonly Lane[]): Promise<void> {
  const [first] = lanes
  if (!first) return
  const forgotten = await Promise.all(lanes.map(sellBefore))
  const restore = await backUp(world.database)
  await Promise.all(forgotten.map(sellAfter))
  await world.passTime(1_000)
  await restore()
  for (const { lane } of forgotten) forget(lane)
  await world.services[0].orderSearch.plan()
  if (first.draw.maybe('searched before the tills come', 0.5)) await search(world)
  await Promise.all(forgotten.map(repeat))
  await search(world)
  for (let round = 0; round < 3; round += 1) await world.passTime(3_000)
  await Promise.all(forgotten.map(({ lane, known }) => readSale(lane, known, 'last')))
}

async function sellBefore(lane: Lane): Promise<Forgotten> {
  const known = newSale(lane, 'known')
  await chargeUntilKnown(lane, known, undefined, 'known')
  await pay(lane)
  await readSale(lane, known, 'known is paid')
  const knownId = known.lastOrderId
  return { lane, known, knownId, sale: undefined, key: undefined, refund: undefined }
}

async function sellAfter(entry: Forgotten): Promise<void> {
  const { lane, known, knownId } = entry
  const { draw } = lane
  if (draw.maybe('refunds', 0.5) && knownId !== undefined) {
    const amountCents = draw.maybe('in part', 0.5) ? Math.floor(known.amountCents / 3) : null
    entry.refund = { orderId: knownId, amountCents, told: 'unknown', key: `${known.reference}-R` }
    await refundUntilKnown(lane, entry.refund, entry.refund.key, 'refund')
    return
  }
  const sale = newSale(lane, 'forgotten')
  entry.sale = sale
  entry.key = draw.maybe('keyed', 0.5) ? `${sale.reference}-1` : undefined
  if (draw.maybe('lost', 0.3)) {
    await arm(lane, { path: '^/v1/orders$', method: 'POST', kind: 'drop_after', count: 20 })
  }
  await chargeUntilKnown(lane, sale, entry.key, 'forgotten')
  await heal(lane)
  if (draw.maybe('paid', 0.7)) await pay(lane)
}

/** What was said after the backup was said by a service that nobody remembers. */
function forget(lane: Lane): void {
  lane.history.push('the backup is restored')
  lane.isRestored = true
  lane.claims = []
  lane.wishes = []
  for (const sale of lane.sales) {
    sale.ordersByKey.clear()
    sale.canceled.clear()
    sale.cancelWished.clear()
    sale.denial = undefined
    if (sale !== lane.sales[0]) sale.lastOrderId = undefined
  }
}

async function repeat({ lane, known, sale, key, refund }: Forgotten): Promise<void> {
  const { draw } = lane
  const isRepeated = draw.maybe('repeats', 0.7)
  if (sale && isRepeated) await chargeUntilKnown(lane, sale, key, 'repeated')
  if (sale) await pay(lane)
  if (!refund) return
  if (isRepeated) {
    const told = await refundUntilKnown(lane, refund, refund.key, 'repeated')
    // A total one is refused as made already, as it is.
    refund.told = told === 'refused' ? 'unknown' : told
    known.refunds.push(refund)
    return
  }
  // Nobody asks for it again: it is like one that was made in the panel.
  for (const order of lane.world.books(lane.bookStart)) {
    if (order.user_id !== lane.shop.mpUserId) continue
    for (const { id } of order.refunds) lane.panelRefunds.add(String(id))
  }
}

async function pay(lane: Lane): Promise<void> {
  const waiting = onTerminal(lane)
  if (waiting) await buyer(lane, waiting, payByCard)
}

/** The search after a start, as long as it takes by the clock. */
async function search(world: World): Promise<void> {
  for (let round = 0; round < 20; round += 1) {
    const open = await world.services[0].orderSearch.searchOnce()
    if (open === 0) return
    await world.passTime(10_000)
  }
}
