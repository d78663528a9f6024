import { deriveBox } from './box-health.ts'
import { deriveConnection } from './connection-health.ts'
import { deriveFlow } from './flow-health.ts'
import type { FleetHealth } from './health-states.ts'
import type { Observations } from './observations.ts'
import { deriveOperation } from './provider-health.ts'

/** Calls without which no box can charge. */
export const chargingCalls: readonly string[] = ['terminal.list', 'order.create']

/** Derives all states from observations. Reads and stores nothing: since when a state lasts is known to the caller. */
export function deriveHealth(seen: Observations, now: Date): FleetHealth {
  const provider = seen.operations.map((one) => deriveOperation(one, now))
  const connections = seen.connections.map((one) => deriveConnection(one, now))
  const byClient = new Map(connections.map((one) => [one.client, one]))
  const charging = provider.filter(({ operation }) => chargingCalls.includes(operation))
  const creations = seen.operations.find(({ operation }) => operation === 'order.create')
  const charged = creations?.slots.find(({ answered }) => answered > 0)?.at ?? null
  return {
    at: now,
    boxes: seen.boxes.map((box) =>
      deriveBox(box, { connection: byClient.get(box.client), charging, charged }, now),
    ),
    connections,
    provider,
    flows: seen.flows.map((flow) => deriveFlow(flow, now)),
  }
}
