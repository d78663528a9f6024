import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { asClientName } from '../../src/domain/client-name.ts'
import { openOwnShop } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { call, type Till } from '../support/till.ts'
import { openClosing, sell, today, watchAfter } from './shop-day.ts'

let service: TestService
let till: Till
beforeAll(async () => {
  service = await startTestService({ env: { RATE_LIMIT_PER_SECOND: '100000' } })
  till = await openOwnShop(service, 'killed')
})
afterAll(() => service.stop())

const sign = (by: TestService, id: string) =>
  call(by, { method: 'POST', url: `/closings/${id}/sign`, token: till.key })

/** A database that is gone after so many statements: what was committed stays, and nothing else is done. */
function dyingAfter(database: Database, statements: number): Database {
  let left = statements
  const die = () => {
    left -= 1
    if (left < 0) throw new Error('killed')
  }
  return {
    ...database,
    db: database.db.withPlugin({
      transformQuery: ({ node }) => {
        die()
        return node
      },
      transformResult: async ({ result }) => result,
    }),
    transaction: (work) => {
      die()
      return database.transaction(work)
    },
  }
}

test('100 kills while days are closed and signed leave numbers without gap or repeat, and nothing signed changes', async () => {
  await sell(service, till, 'A-1')
  const dayOf = (at: number) =>
    new Date(Date.parse(today(service)) - at * 86_400_000).toISOString().slice(0, 10)
  const signed = new Map<string, string>()
  const rowsOfSigned = async () => {
    const rows = await service.database.db
      .selectFrom('closings')
      .selectAll()
      .where('state', '=', 'signed')
      .execute()
    return rows.map((row) => [row.id, JSON.stringify(row)] as const)
  }
  for (let kill = 0; kill < 100; kill += 1) {
    // The leases of the one that died run out.
    service.clock.advance(61_000)
    const dying = await startTestService({
      twinOf: service,
      database: dyingAfter(service.database, 3 + ((kill * 7) % 150)),
    }).catch(() => undefined)
    if (dying) {
      const body = { business_day: dayOf(1 + (kill % 20)) }
      const opened = await openClosing(dying, till, body)
      const id: string | undefined = opened.json().id
      await dying.paymentWatch.watchOnce().catch(() => undefined)
      if (id !== undefined) await sign(dying, id)
      await dying.stop().catch(() => undefined)
    }
    for (const [id, row] of await rowsOfSigned()) {
      expect(row, id).toBe(signed.get(id) ?? row)
      signed.set(id, row)
    }
  }
  await watchAfter(service, 11_000)
  const rows = await service.database.db
    .selectFrom('closings')
    .select(['number', 'state'])
    .where('client', '=', asClientName(till.client))
    .orderBy('number')
    .execute()
  expect(rows.length).toBeGreaterThan(5)
  expect(rows.map(({ number }) => number)).toEqual(rows.map((_, at) => at + 1))
  expect(signed.size).toBeGreaterThan(0)
}, 240_000)
