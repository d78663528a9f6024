import { randomUUID } from 'node:crypto'
import { asClientName } from '../../src/domain/client-name.ts'
import { orderRow } from '../support/money.ts'
import type { TestService } from '../support/service.ts'
import { charge, sandboxCall, type Till } from '../support/till.ts'

export const chainBoxes: readonly string[] = Array.from({ length: 40 }, (_, at) => `BOX-${at}`)
export const planted = { orphans: 20, online: 30 }

/**
 * A day of 40 boxes from `beganMs` on, a charge every four seconds, the same on both sides except for the planted differences; returns
 * the differences to find. The shop `till` has the boxes already.
 */
export async function seedChainDay(
  service: TestService,
  till: Till,
  { charges, beganMs }: { charges: number; beganMs: number },
): Promise<string[]> {
  const { db } = service.database
  const boxesThere = await db
    .selectFrom('pos')
    .select(['external_id', 'mp_pos_id'])
    .where('client', '=', asClientName(till.client))
    .execute()
  const posOf = new Map(boxesThere.map((box) => [box.external_id, Number(box.mp_pos_id)]))
  const { standing: _, ...model } = await orderRow(
    service,
    (await charge(service, till, { reference: 'MODEL' })).json().order_id,
  )
  const expected: string[] = []
  const orders: object[] = []
  const payments: object[] = []
  for (let at = 0; at < charges; at += 1) {
    const id = 970_000_000 + at
    const caja_id = chainBoxes[at % chainBoxes.length] as string
    const cents = 1_000 + (at % 997)
    const madeAt = new Date(beganMs + at * 4_000)
    const paid = {
      paidCents: cents,
      refundedCents: 0,
      methodType: 'debit_card',
      referenceId: `${id}`,
    }
    orders.push({
      ...model,
      id: randomUUID(),
      caja_id,
      sucursal_id: 'SUC-2',
      external_reference: `D-${at}`,
      mp_external_reference: `D-${at}`,
      mp_order_id: `ORDTST${String(at).padStart(26, '0')}`,
      amount_cents: cents,
      status: 'processed',
      paid_cents: cents,
      payments: JSON.stringify([
        { id: `PAY${at}`, amountCents: cents, status: 'approved', ...paid },
      ]),
      refunds: '[]',
      created_at: madeAt,
      last_updated_at: madeAt,
      expires_at: madeAt,
      next_check_at: null,
    })
    const isMissing = at % 1_000 === 500
    const isOther = at % 1_000 === 700
    if (isMissing) expected.push(`missing_there ${caja_id} ${id}`)
    if (isOther) expected.push(`amount_differs ${caja_id} ${id}`)
    const there = isOther ? cents + 1 : cents
    if (!isMissing) {
      payments.push({
        id,
        user_id: till.mpUserId,
        pos_id: posOf.get(caja_id),
        amount: `${Math.floor(there / 100)}.${String(there % 100).padStart(2, '0')}`,
        payment_method_type: 'debit_card',
        // Payments of terminals may or may not have the reference, so half of them have it.
        ...(at % 2 === 0 && { external_reference: `D-${at}` }),
        at: new Date(madeAt.getTime() + 2_000).toISOString(),
      })
    }
  }
  for (let at = 0; at < planted.orphans + planted.online; at += 1) {
    const caja_id = chainBoxes[(at * 7) % chainBoxes.length] as string
    const isOrphan = at < planted.orphans
    if (isOrphan) expected.push(`missing_here ${caja_id} ${980_000_000 + at}`)
    payments.push({
      id: 980_000_000 + at,
      user_id: till.mpUserId,
      ...(isOrphan && { pos_id: posOf.get(caja_id) }),
      amount: '77.50',
      at: new Date(beganMs + at * 60_000).toISOString(),
    })
  }
  for (let from = 0; from < orders.length; from += 500) {
    await db
      .insertInto('orders')
      .values(orders.slice(from, from + 500) as never)
      .execute()
  }
  for (let from = 0; from < payments.length; from += 1_000) {
    await sandboxCall(service, 'POST', '/_sandbox/payments', payments.slice(from, from + 1_000))
  }
  return expected
}
