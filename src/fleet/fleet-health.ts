import { deriveBox, providerFor } from './box-health.ts'
import { deriveConnection } from './connection-health.ts'
import { deriveFlow } from './flow-health.ts'
import type { FleetHealth } from './health-states.ts'
import type { Observations } from './observations.ts'

/** Derives all states from observations. Reads and stores nothing: since when a state lasts is known to the caller. */
export function deriveHealth(seen: Observations, now: Date): FleetHealth {
  const connections = seen.connections.map((one) => deriveConnection(one, now))
  const connectionOf = new Map(connections.map((one) => [one.client, one]))
  const boxesOf = Map.groupBy(seen.boxes, ({ client }) => client)
  return {
    at: now,
    boxes: [...boxesOf].flatMap(([client, boxes]) => {
      const around = { connection: connectionOf.get(client), ...providerFor(boxes, now) }
      return boxes.map((box) => deriveBox(box, around, now))
    }),
    connections,
    flows: seen.flows.map((flow) => deriveFlow(flow, now)),
  }
}
