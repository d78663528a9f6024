import { setTimeout as wait } from 'node:timers/promises'
import { closedStores, daysOf, halfClosedStores, planStores } from './chain-plan.ts'
import { type ChainKey, type ChainService, chainCall, forEach } from './chain-service.ts'

const withinMs = 300_000

type Closing = { id: string; state: string }

/** Opens the closings of yesterday of some stores, and of half of the boxes of others today. Answers how many. */
export async function openClosings(
  service: ChainService,
  key: ChainKey,
  now: Date,
): Promise<number> {
  const { yesterday, today } = daysOf(now)
  const boxesOf = (wanted: readonly string[]) =>
    planStores().flatMap(({ id, boxes }) => (wanted.includes(id) ? [boxes] : []))
  const bodies = [
    ...boxesOf(closedStores).flatMap((boxes) =>
      boxes.map(({ id }) => ({ caja_id: id, business_day: yesterday.day })),
    ),
    ...boxesOf(halfClosedStores).flatMap((boxes) =>
      boxes.slice(0, boxes.length / 2).map(({ id }) => ({ caja_id: id, business_day: today.day })),
    ),
  ]
  await forEach(bodies, 4, async (body) => {
    await chainCall(service, key, 'POST', '/closings', body)
  })
  return bodies.length
}

/** Waits until the closings of yesterday are compared, and signs those that agree. Answers how many are signed. */
export async function signYesterday(
  service: ChainService,
  key: ChainKey,
  now: Date,
): Promise<number> {
  const { day } = daysOf(now).yesterday
  const until = performance.now() + withinMs
  for (;;) {
    const { closings } = (await chainCall(
      service,
      key,
      'GET',
      `/closings?from=${day}&to=${day}&limit=200`,
    )) as { closings: Closing[] }
    if (closings.every(({ state }) => state !== 'open' && state !== 'checking')) {
      const agreed = closings.filter(({ state }) => state === 'agreed')
      await forEach(agreed, 4, async ({ id }) => {
        await chainCall(service, key, 'POST', `/closings/${id}/sign`)
      })
      return agreed.length
    }
    if (performance.now() > until) throw new Error('the closings of yesterday are not compared yet')
    await wait(250)
  }
}
