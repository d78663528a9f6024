import { expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { type ChangedOrder, createOrderChanges } from '../../src/payments/orders/order-changes.ts'

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

test('a change wakes the watchers of that order, and every subscriber receives it', async () => {
  const { changes, change, notify } = await overConnection()
  const calls: unknown[] = []
  changes.watch('a', () => calls.push('woken'))
  changes.watch('b', () => calls.push('wrong'))
  changes.subscribe(
    (one) => calls.push(one),
    () => calls.push('gap'),
  )
  notify('a')
  expect(calls).toEqual(['woken', change('a')])
})

test('after a lost connection all watchers and subscribers are called, because a change may have been missed', async () => {
  const { changes, lose } = await overConnection()
  const calls: string[] = []
  changes.watch('a', () => calls.push('a'))
  changes.watch('b', () => calls.push('b'))
  changes.subscribe(
    () => calls.push('change'),
    () => calls.push('gap'),
  )
  const waited = changes.wait('c', 60_000)
  lose()
  await waited
  expect(calls).toEqual(['a', 'b', 'gap'])
})

test('one function that watches twice counts twice and is removed twice', async () => {
  const { changes, notify } = await overConnection()
  let wakes = 0
  const wake = () => {
    wakes += 1
  }
  const [first, second] = [changes.watch('a', wake), changes.watch('a', wake)]
  expect(changes.waiting()).toBe(2)
  first()
  first()
  notify('a')
  expect([wakes, changes.waiting()]).toEqual([1, 1])
  second()
  notify('a')
  expect([wakes, changes.waiting()]).toEqual([1, 0])
})
