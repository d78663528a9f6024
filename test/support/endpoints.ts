import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import type { EventType } from '../../src/domain/event-types.ts'
import { insertEvent } from '../../src/repositories/events/event-log.ts'
import type { Call } from '../notifications/receivers.ts'
import type { TestService } from './service.ts'
import { call, type Till } from './till.ts'

export const endpointsPath = '/events/endpoints'

export type MadeEndpoint = { id: string; secret: string; url: string }

/** An endpoint of a client, at a path of its own. */
export async function makeEndpoint(
  service: TestService,
  till: Pick<Till, 'key'>,
  url: string,
  body: object = {},
): Promise<MadeEndpoint> {
  const made = await call(service, {
    url: endpointsPath,
    token: till.key,
    body: { url, ...body },
  })
  expect(made.statusCode, made.body).toBe(201)
  return made.json()
}

/** Writes an event of a resource, such as `o1`; returns its id. */
export async function writeEvent(
  service: TestService,
  client: string,
  resource: string,
  {
    type = 'order.paid',
    cajaId = 'CAJA-1',
    sucursalId = 'SUC-1',
  }: { type?: EventType; cajaId?: string; sucursalId?: string } = {},
): Promise<void> {
  await service.database.transaction((trx) =>
    insertEvent(trx, {
      client: client as never,
      sucursalId,
      cajaId,
      type,
      at: service.clock.now(),
      resource: { type: 'order', id: resource, version: 1 },
      orderId: null,
      changes: {},
      data: { reference: randomUUID() },
    }),
  )
}

type Received = { id: string; type: string; resource: { id: string } }

export const bodyOf = ({ body }: Call): Received => JSON.parse(body)

/** The resources of the events that came at a path, in order. */
export function resourcesAt(calls: readonly Call[], path: string): string[] {
  return calls.filter(({ url }) => url === path).map((one) => bodyOf(one).resource?.id)
}

/** What the API says about an endpoint. */
export async function readEndpoint(service: TestService, till: Pick<Till, 'key'>, id: string) {
  const answer = await call(service, { url: `${endpointsPath}/${id}`, token: till.key })
  expect(answer.statusCode, answer.body).toBe(200)
  return answer.json()
}
