import { expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { type ChangedOrder, createOrderChanges } from '../../src/payments/process/order-changes.ts'

/** Changes over a database whose notifications and connection the test controls. */
async function overConnection() {
  let deliver = (_payload: string) => {}
  let lose = () => {}
  const database = {
    async listen(_channel, onPayload, onGap = () => {}) {
      deliver = onPayload
      lose = onGap
      return async () => {}
    },
  } satisfies Pick<Database, 'listen'> as unknown as Database
  const changes = await createOrderChanges(database)
  const change = (order_id: string): ChangedOrder => ({
    order_id,
    client: 'acme',
    caja_id: 'CAJA-1',
    status: 'processed',
    version: 3,
  })
  return {
    changes,
    change,
    notify: (orderId: string) => deliver(JSON.stringify(change(orderId))),
    lose: () => lose(),
  }
}

test('a change wakes the waiters of that order, and every subscriber receives it', async () => {
  const { changes, change, notify } = await overConnection()
  const calls: unknown[] = []
  const woken = [changes.wait('a', 60_000), changes.wait('a', 60_000)]
  const other = changes.wait('b', 60_000)
  expect(changes.waiting()).toBe(3)
  changes.subscribe(
    (one) => calls.push(one),
    () => calls.push('gap'),
  )
  notify('a')
  await Promise.all(woken)
  expect(calls).toEqual([change('a')])
  expect(changes.waiting()).toBe(1)
  await changes.close()
  await other
  expect(changes.waiting()).toBe(0)
})

test('after a lost connection all waiters and subscribers are called, because a change may have been missed', async () => {
  const { changes, lose } = await overConnection()
  const calls: string[] = []
  changes.subscribe(
    () => calls.push('change'),
    () => calls.push('gap'),
  )
  const waited = [changes.wait('a', 60_000), changes.wait('b', 60_000)]
  lose()
  await Promise.all(waited)
  expect(calls).toEqual(['gap'])
})
