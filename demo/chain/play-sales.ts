import { sql } from 'kysely'
import type { Database } from '../../src/db/database.ts'
import { chain, planStores, problemBoxes, storeOfRealSales } from './chain-plan.ts'
import {
  type ChainKey,
  type ChainService,
  chainCall,
  forEach,
  sandboxCall,
} from './chain-service.ts'

/** Sales of one store that are real orders at the sandbox. */
const sales = { paid: 14, refunded: 2, refundedInPart: 3, canceled: 3, declined: 2 }
type Kind = keyof typeof sales

const amount = '25400,00'
const part = '5400,00'

/**
 * Sells in one store as its tills would: paid, refunded, canceled and declined orders, all of which the sandbox has. Answers the
 * references of those that are to be of yesterday: `moveToYesterday` makes them so.
 */
export async function playSales(service: ChainService, key: ChainKey): Promise<string[]> {
  const store = planStores().find(({ id }) => id === storeOfRealSales)
  const boxes = store?.boxes.map(({ id }) => id) ?? []
  const kinds = (Object.keys(sales) as Kind[]).flatMap((kind) =>
    Array<Kind>(sales[kind]).fill(kind),
  )
  const planned = kinds.map((kind, at) => ({ kind, box: boxes[at] as string, name: `R-${at + 1}` }))
  await forEach(planned, 4, async ({ kind, box, name }) => {
    const order = await charge(service, key, box, name)
    if (kind === 'canceled') {
      await chainCall(service, key, 'POST', '/orders/cancel', { order_id: order.id })
      return
    }
    await sandboxCall(service, 'POST', `/_sandbox/orders/${order.mpOrderId}/act`, {
      do: kind === 'declined' ? 'decline' : 'pay',
      payment_method_type: 'credit_card',
      payment_method_id: 'visa',
      installments: 1,
    })
    await chainCall(service, key, 'GET', `/orders/${order.id}`)
    if (kind === 'paid' || kind === 'declined') return
    await chainCall(service, key, 'POST', '/orders/refund', {
      order_id: order.id,
      ...(kind === 'refundedInPart' && { amount: part }),
    })
  })
  return planned.filter(({ kind }) => kind === 'paid').map(({ name }) => name)
}

async function charge(service: ChainService, key: ChainKey, box: string, name: string) {
  const made = await chainCall(service, key, 'POST', '/orders', {
    caja_id: box,
    external_reference: name,
    amount,
  })
  const read = await chainCall(service, key, 'GET', `/orders/${made.order_id}`)
  return { id: String(made.order_id), mpOrderId: String(read.mp_order_id) }
}

/** Moves sales to the day before, with what is known about them. */
export async function moveToYesterday(database: Database, names: string[]): Promise<void> {
  const day = sql`interval '1 day'`
  await sql`
    with moved as (
      update orders set created_at = created_at - ${day}, sent_at = sent_at - ${day},
        last_updated_at = last_updated_at - ${day}, expires_at = expires_at - ${day}
      where client = ${chain.client} and external_reference = any(${names}::text[])
      returning id
    )
    update order_events set at = at - ${day} where order_id in (select id from moved)`.execute(
    database.db,
  )
}

/** A till charges on each box that cannot, and is refused. */
export async function refuseCharges(service: ChainService, key: ChainKey): Promise<void> {
  const { terminals } = (await chainCall(
    service,
    key,
    'GET',
    `/terminals?caja_id=${problemBoxes.busy}`,
  )) as { terminals: { id: string }[] }
  await sandboxCall(service, 'POST', '/_sandbox/orders', {
    type: 'point',
    external_reference: 'desde-el-panel',
    transactions: { payments: [{ amount: '10.00' }] },
    config: { point: { terminal_id: terminals[0]?.id } },
  })
  for (const [at, box] of Object.values(problemBoxes).entries()) {
    const body = { caja_id: box, external_reference: `RECHAZADO-${at + 1}`, amount }
    await chainCall(service, key, 'POST', '/orders', body, [404, 409])
  }
}
