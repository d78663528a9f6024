import { expect, test } from 'vitest'
import type { Flow } from '../../src/sync/definition/schema.ts'
import { useService } from './deliver-service.ts'
import { flowOf, type Rules, receiver } from './deliver-support.ts'

const service = useService()

function sharing(name: string, budget: string, rules: Rules = {}): Flow {
  const flow = flowOf(name, [rules])
  return {
    ...flow,
    destinations: flow.destinations.map(
      (one) => ({ ...one, type: 'http', budget }) as Flow['destinations'][number],
    ),
  }
}

test('destinations that name one budget share what its receiver tells, whatever limits of their own they have', async () => {
  const told = { remaining: 0, limit: 5, resetMs: 3_600_000 }
  const takesNoMore = receiver(async () => ({ ok: true, budget: told }))
  const others = [receiver(), receiver(), receiver()]
  const flows = [
    sharing('shared-1', 'shop', { rateLimit: { max: 50, perMs: 1_000 } }),
    sharing('shared-2', 'shop'),
    sharing('shared-3', 'another shop'),
  ]
  const first = sharing('shared-0', 'shop')
  await service().run(first, [takesNoMore])
  await service().change(first, [{ pk: 'A' }])
  await expect.poll(() => takesNoMore.calls.length).toBe(1)
  for (const [index, flow] of flows.entries()) {
    await service().run(flow, others.slice(index, index + 1))
    await service().change(flow, [{ pk: 'A' }])
  }
  await expect.poll(() => others[2]?.calls.length).toBe(1)
  expect(others.map(({ calls }) => calls.length)).toEqual([0, 0, 1])
})
