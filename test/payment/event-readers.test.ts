/** @module-tag long */

import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sell } from '../closings/shop-day.ts'
import { writeEvent } from '../support/endpoints.ts'
import { openOwnShop } from '../support/money.ts'
import { by, join } from '../support/people.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { type Call, call, type Till } from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

const feed = '/events/feed'
const charges = 50

type Event = {
  id: string
  type: string
  client: string
  caja_id: string
  resource: { id: string; version: number }
}
type Page = { events: Event[]; next: string; has_more: boolean }

/** Reads pages until the sales have ended and there is no more. */
type Read = (till: Till, hasEnded: () => boolean) => Promise<Event[]>

type Ask = (request: Call) => ReturnType<typeof call>
const withKey =
  ({ key }: Till): Ask =>
  (request) =>
    call(service, { ...request, token: key })

async function pageOf(ask: Ask, url: string): Promise<Page> {
  const answer = await ask({ url })
  expect(answer.statusCode, answer.body).toBe(200)
  return answer.json()
}

async function untilEnd(hasEnded: () => boolean, next: () => Promise<Page>): Promise<Event[]> {
  const read: Event[] = []
  for (;;) {
    const isLast = hasEnded()
    const { events, has_more: hasMore } = await next()
    read.push(...events)
    if (isLast && !hasMore && events.length === 0) return read
    // As a program that asks again after a while; without it the ten would ask all the time.
    if (events.length === 0) await wait(50)
  }
}

/** With a cursor of its own. */
function byCursor(query: string, askAs: (till: Till) => Promise<Ask>): Read {
  return async (till, hasEnded) => {
    const ask = await askAs(till)
    let after = ''
    return untilEnd(hasEnded, async () => {
      const page = await pageOf(ask, `${feed}?${query}${after && `&after=${after}`}`)
      after = page.next
      return page
    })
  }
}

const byKey = async (till: Till) => withKey(till)

/** With the place that the service keeps. */
function byConsumer(query: string): Read {
  return async (till, hasEnded) => {
    const ask = withKey(till)
    const consumers = `${feed}/consumers`
    await ask({ url: consumers, body: { name: 'erp', from: 'beginning' } })
    return untilEnd(hasEnded, async () => {
      const page = await pageOf(ask, `${feed}?consumer=erp&reader=pc&${query}`)
      const body = { after: page.next }
      const committed = await ask({ url: `${consumers}/erp?reader=pc`, body })
      expect(committed.statusCode, committed.body).toBe(200)
      return page
    })
  }
}

/** A supervisor of the store where the charges are made. */
async function byPerson({ client }: Till): Promise<Ask> {
  const stores = ['SUC-1']
  const ana = await join(service, { name: 'ana', role: 'supervisor', client, stores })
  return (request) => by(service, ana, request)
}

const readers: [how: string, read: Read][] = [
  ['a key', byCursor('limit=100', byKey)],
  ['a key, few at a time', byCursor('limit=3', byKey)],
  ['a key that waits', byCursor('wait=1', byKey)],
  ['a key that waits, few at a time', byCursor('wait=1&limit=7', byKey)],
  ['a key, one box', byCursor('caja_id=CAJA-1', byKey)],
  ['a key that waits, one store', byCursor('wait=1&sucursal_id=SUC-1', byKey)],
  ['a supervisor of one store', byCursor('limit=20', byPerson)],
  ['a consumer', byConsumer('limit=100')],
  ['a consumer, few at a time', byConsumer('limit=3')],
  ['a consumer that waits', byConsumer('wait=1')],
]

test('ten clients read while 500 charges are made: each gets all of its own, once, in the order of each charge', {
  timeout: 60_000,
}, async () => {
  const tills = await Promise.all(readers.map((_, at) => openOwnShop(service, `reader ${at}`)))
  let left = tills.length
  const selling = tills.map(async (till) => {
    for (let sale = 0; sale < charges; sale += 1) {
      await sell(service, till, `S-${sale}`)
      // Of another box and another store.
      await writeEvent(service, till.client, `o${sale}`, { cajaId: 'CAJA-9', sucursalId: 'SUC-9' })
    }
    left -= 1
  })
  const reading = readers.map(([, read], at) => read(tills[at] as Till, () => left === 0))
  const [read] = await Promise.all([Promise.all(reading), Promise.all(selling)])

  for (const [at, [how]] of readers.entries()) {
    const { client } = tills[at] as Till
    const got = read[at] as Event[]
    expect([how, new Set(got.map((one) => one.client))]).toEqual([how, new Set([client])])
    expect([how, new Set(got.map(({ id }) => id)).size]).toEqual([how, got.length])
    const sold = Map.groupBy(
      got.filter(({ caja_id: box }) => box === 'CAJA-1'),
      ({ resource }) => resource.id,
    )
    expect([how, sold.size]).toEqual([how, charges])
    for (const events of sold.values()) {
      expect(events.map(({ type }) => type)).toEqual(['order.created', 'order.paid'])
      const [created, paid] = events.map(({ resource }) => resource.version)
      expect(paid).toBeGreaterThan(created as number)
    }
    const isLimited = /\bone\b/.test(how)
    expect([how, got.length]).toEqual([how, charges * (isLimited ? 2 : 3)])
  }
})
