import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { openTestDatabase } from '../support/database.ts'
import { openOwnShop } from '../support/money.ts'
import { rounds } from '../support/rounds.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, call, charge, payByCard, readOrder, type Till } from '../support/till.ts'

let service: TestService
const tills: Till[] = []
beforeAll(async () => {
  service = await startTestService({ waits: { perOwner: 2, total: 3 } })
  for (const client of ['acme', 'other']) tills.push(await openOwnShop(service, client))
})
afterAll(() => service.stop())

const [acme, other] = [0, 1].map((index) => () => tills[index] as Till) as [() => Till, () => Till]

async function openOrder(till: Till, reference: string): Promise<{ id: string; version: number }> {
  const { order_id } = (await charge(service, till, { reference })).json()
  const { version } = (await readOrder(service, till, order_id)).json()
  return { id: order_id, version }
}

/** A client that waits for the order to change, and whether the wait is over. */
function waitFor(till: Till, order: { id: string; version: number }) {
  const waiting = { isOver: false, answer: Promise.resolve() as Promise<unknown> }
  const answer = call(service, {
    url: `/orders/${order.id}?wait=20&version=${order.version}`,
    token: till.key,
  })
  void answer.then(() => (waiting.isOver = true))
  return Object.assign(waiting, { answer })
}

/** A poll of the service that waits is counted; one that is over is not. */
const untilWaiting = (polls: number, of = service) =>
  expect.poll(() => of.deps.changes.waiting()).toBe(polls)

test('a long poll above the limit of its client is answered at once, and other clients keep their own limit', {
  tags: ['long'],
}, async () => {
  const order = await openOrder(acme(), 'W-1')
  const foreign = await openOrder(other(), 'W-2')
  const waiting = [waitFor(acme(), order), waitFor(acme(), order)]
  await untilWaiting(2)
  const third = await waitFor(acme(), order).answer
  expect([third.statusCode, third.json().status]).toEqual([200, 'created'])
  expect(third.headers['retry-after']).toBe('2')

  const theirs = waitFor(other(), foreign)
  await untilWaiting(3)
  expect([...waiting, theirs].map(({ isOver }) => isOver)).toEqual([false, false, false])
  // The limit of all clients together is reached now.
  expect((await waitFor(other(), foreign).answer).headers['retry-after']).toBe('2')

  await act(service, order.id, payByCard)
  await readOrder(service, acme(), order.id)
  for (const { answer } of waiting) {
    const changed = await answer
    expect(changed.json().status).toBe('processed')
    expect(changed.headers['retry-after']).toBeUndefined()
  }
  // Ended polls count no longer.
  const next = waitFor(other(), foreign)
  await untilWaiting(2)
  expect(next.isOver).toBe(false)
  await act(service, foreign.id, payByCard)
  await readOrder(service, other(), foreign.id)
  await Promise.all([theirs.answer, next.answer])
})

test('T37: hundreds of long polls share one database subscription, and all receive the change', {
  tags: ['long'],
}, async () => {
  const tills = Math.min(1_000, rounds(200))
  const opened = await openTestDatabase()
  let listening = 0
  const database: Database = {
    ...opened,
    async listen(...args) {
      listening += 1
      return opened.listen(...args)
    },
  }
  const own = await startTestService({
    database,
    waits: { perOwner: tills, total: tills },
  })
  const till = await openOwnShop(own, 'crowded')
  const { order_id } = (await charge(own, till, { reference: 'W-3' })).json()
  const { version } = (await readOrder(own, till, order_id)).json()
  const before = listening
  const url = `/orders/${order_id}?wait=30&version=${version}`
  const waiting = Array.from({ length: tills }, () => call(own, { url, token: till.key }))
  await untilWaiting(tills, own)
  // A request above the limit does not wait.
  expect((await call(own, { url, token: till.key })).headers['retry-after']).toBe('2')
  expect(listening).toBe(before)
  await act(own, order_id, payByCard)
  await readOrder(own, till, order_id)
  const responses = await Promise.all(waiting)
  expect(new Set(responses.map((answer) => answer.json().status))).toEqual(new Set(['processed']))
  await own.stop()
  await opened.close()
})
