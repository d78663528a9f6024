import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openOwnShop } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call } from '../support/till.ts'
import { openClosing, readClosing, sell, today, typeCharge, watchAfter } from './shop-day.ts'

const minuteMs = 60_000

describe.each([
  ['five minutes ahead', 5 * minuteMs],
  ['five minutes behind', -5 * minuteMs],
])('with our clock %s of the provider', (name, aheadMs) => {
  let service: TestService
  beforeAll(async () => {
    service = await startTestService({ aheadMs })
    const sinceMorning = service.clock.now().getTime() % (24 * 60 * minuteMs)
    service.clock.advance(24 * 60 * minuteMs - sinceMorning + 15 * 60 * minuteMs)
  })
  afterAll(() => service.stop())

  test('each sale stands in exactly one signed closing', { tags: ['long'] }, async () => {
    const till = await openOwnShop(service, `sales ${name}`)
    const counts: number[] = []
    for (const step of [0, 1, 2, 3, 4, 5]) {
      await sell(service, till, `S-${step}`)
      service.clock.advance(30_000)
      const { id } = (await openClosing(service, till, { business_day: today(service) })).json()
      await watchAfter(service, 62_000)
      const { state, totals } = await readClosing(service, till, id)
      expect([step, state]).toEqual([step, 'agreed'])
      counts.push(totals.here.count)
      const url = `/closings/${id}/sign`
      await call(service, { method: 'POST', url, token: till.key })
      service.clock.advance(45_000)
    }
    expect(counts).toEqual([1, 1, 1, 1, 1, 1])
  })

  test('a charge typed into the terminal is found within ten minutes, whenever it is made', {
    tags: ['long'],
  }, async () => {
    const till = await openOwnShop(service, `typed ${name}`)
    const typed: string[] = []
    for (let minute = 0; minute < 12; minute += 1) {
      typed.push(await typeCharge(service, till))
      await watchAfter(service, minuteMs)
    }
    for (let minute = 0; minute < 10; minute += 1) await watchAfter(service, minuteMs)
    const { orphans } = (await call(service, { url: '/orphans?limit=100', token: till.key })).json()
    const found = orphans.map(({ payment_id }: { payment_id: string }) => payment_id)
    expect(found.toSorted()).toEqual(typed)
  })

  test('the health detail says how far the clock is off, and the log warns', async () => {
    await openOwnShop(service, `health ${name}`)
    // A call to the provider shows its time.
    await watchAfter(service, minuteMs)
    const { checks } = (await asAdmin(service, { url: '/health' })).json()
    expect(checks.provider_clock).toEqual({ status: 'degraded', ahead_seconds: aheadMs / 1000 })
    expect(service.logLines.join('')).toContain('our clock differs from that of the provider')
  })
})
