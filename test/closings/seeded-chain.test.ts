/** @module-tag long */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { daysOf, chain as plan, problemBoxes } from '../../demo/chain/chain-plan.ts'
import { type SeededChain, startSeededChain } from '../support/seeded-chain.ts'
import { call } from '../support/till.ts'

/** The chain of `npm run demo -- --chain` has the planted problems and no others. */

let chain: SeededChain
beforeAll(async () => {
  chain = await startSeededChain({ closings: true })
}, 240_000)
afterAll(() => chain?.stop())

const ask = async (url: string) => (await call(chain.service, { url, token: chain.key.key })).json()

type Store = {
  sucursal_id: string
  difference: string
  boxes: { total: number }
  closings: { closed: number }
}
const days = () => daysOf(chain.service.clock.now())
const salesOf = ({ day }: { day: string }) => {
  const from = Date.parse(`${day}T00:00:00-03:00`)
  const to = Math.min(from + 24 * 3_600_000, chain.service.clock.now().getTime())
  return ask(`/sales?from=${new Date(from).toISOString()}&to=${new Date(to).toISOString()}`)
}

test('the chain has its stores, boxes and sales, and differs from Mercado Pago only where that is planted', async () => {
  const { today, yesterday } = days()
  const now = await salesOf(today)
  const stores: Store[] = now.stores
  expect(stores).toHaveLength(plan.stores)
  expect(stores.reduce((sum, { boxes }) => sum + boxes.total, 0)).toBe(
    plan.stores * plan.boxesPerStore,
  )
  const wrong = stores.filter(({ difference }) => difference !== '0.00')
  expect(wrong.map(({ sucursal_id: id }) => id).toSorted()).toEqual(['SUC-3', 'SUC-7', 'SUC-8'])
  expect(stores.map(({ closings }) => closings.closed)).toEqual([15, 15, 0, 0, 0, 0, 0, 0, 0, 0])
  const before = await salesOf(yesterday)
  expect(before.total.difference).toBe('0.00')
  const { total } = await ask('/orders?limit=1')
  expect(total).toBeGreaterThanOrEqual(plan.salesYesterday + plan.salesToday)
})

test('three boxes cannot charge, each for its own cause', async () => {
  const { boxes } = await ask('/health/fleet?only=problems')
  const causes = boxes.map((box: { caja_id: string; cause: string }) => [box.caja_id, box.cause])
  expect(Object.fromEntries(causes)).toEqual({
    [problemBoxes.standalone]: 'terminal_standalone',
    [problemBoxes.withoutTerminal]: 'terminal_missing',
    [problemBoxes.busy]: 'terminal_busy',
  })
})

test('yesterday is closed and signed in three stores', async () => {
  const { day } = days().yesterday
  const { closings, total } = await ask(`/closings?from=${day}&to=${day}&limit=200`)
  expect(total).toBe(3 * plan.boxesPerStore)
  expect(new Set(closings.map(({ state }: { state: string }) => state))).toEqual(
    new Set(['signed']),
  )
})
