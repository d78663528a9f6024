import { expect, test } from 'vitest'
import { Secret } from '../../src/domain/flow-secret.ts'
import type { Flow } from '../../src/flows/definition/schema.ts'
import { useService } from './deliver-service.ts'
import { flowOf, type Rules, receiver } from './deliver-support.ts'

const service = useService()

const url = new Secret('https://shop.example.com', 'https://shop.example.com')
const request = { method: 'PUT', url, headers: {} }

function sharing(name: string, budget: string, rules: Rules = {}): Flow {
  const flow = flowOf(name, [rules])
  return {
    ...flow,
    destinations: flow.destinations.map(
      (one) => ({ ...one, type: 'http', budget, request }) as Flow['destinations'][number],
    ),
  }
}

test('destinations with the same shared limit use it together', async () => {
  const rules = { rateLimit: { max: 2, perMs: 3_600_000 } }
  const receivers = [receiver(), receiver(), receiver(), receiver()]
  const flows = [
    sharing('shared-0', 'shop', rules),
    sharing('shared-1', 'shop', rules),
    sharing('shared-2', 'shop', { rateLimit: { max: 3, perMs: 3_600_000 } }),
    sharing('shared-3', 'another shop', rules),
  ]
  for (const [index, flow] of flows.entries()) {
    await service().run(flow, receivers.slice(index, index + 1))
  }
  const calls = () => receivers.map((one) => one.calls.length)
  for (const flow of flows) await service().change(flow, [{ pk: 'A' }])
  await expect.poll(calls).toEqual([1, 1, 1, 1])
  for (const flow of flows) await service().change(flow, [{ pk: 'B' }])
  await expect.poll(calls).toEqual([1, 1, 2, 2])
})
