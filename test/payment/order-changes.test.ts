import { expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { type ChangedOrder, createOrderChanges } from '../../src/payments/orders/order-changes.ts'

/** Changes over a database whose connection the test controls. */
async function overWire() {
  let hear = (_payload: string) => {}
  let lose = () => {}
  const database = {
    async listen(_channel, onPayload, onGap = () => {}) {
      hear = onPayload
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
    hear: (orderId: string) => hear(JSON.stringify(change(orderId))),
    lose: () => lose(),
  }
}

test('a change wakes who watches that order, and every subscriber hears whose it is', async () => {
  const { changes, change, hear } = await overWire()
  const heard: unknown[] = []
  changes.watch('a', () => heard.push('woken'))
  changes.watch('b', () => heard.push('wrong'))
  changes.subscribe(
    (one) => heard.push(one),
    () => heard.push('gap'),
  )
  hear('a')
  expect(heard).toEqual(['woken', change('a')])
})

test('after a lost connection everybody looks again, since a change may have gone unheard', async () => {
  const { changes, lose } = await overWire()
  const heard: string[] = []
  changes.watch('a', () => heard.push('a'))
  changes.watch('b', () => heard.push('b'))
  changes.subscribe(
    () => heard.push('change'),
    () => heard.push('gap'),
  )
  const waited = changes.wait('c', 60_000)
  lose()
  await waited
  expect(heard).toEqual(['a', 'b', 'gap'])
})

test('one function that watches twice is counted and forgotten twice', async () => {
  const { changes, hear } = await overWire()
  let calls = 0
  const wake = () => {
    calls += 1
  }
  const [first, second] = [changes.watch('a', wake), changes.watch('a', wake)]
  expect(changes.waiting()).toBe(2)
  first()
  first()
  hear('a')
  expect([calls, changes.waiting()]).toEqual([1, 1])
  second()
  hear('a')
  expect([calls, changes.waiting()]).toEqual([1, 0])
})
