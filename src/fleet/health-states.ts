import type { ClientName } from '../domain/client-name.ts'
import type { StoresSeen } from '../domain/permissions.ts'
import type { Cause } from './causes.ts'

/**
 * `ok`: it worked a short while ago. `attention`: it works, and a person should act before it stops. `down`: it cannot
 * work now. `unknown`: no observation shows it.
 */
export const healthStates = ['ok', 'attention', 'down', 'unknown'] as const
export type HealthState = (typeof healthStates)[number]

/** The values for the message of a state. */
export type Particulars = {
  terminalId?: string
  /** The order that occupies a terminal or is in doubt: the ERP's reference, and our id. */
  reference?: string
  orderId?: string
  /** The ERP's reference of the charge that was made instead. */
  instead?: string
  /** The destination that decides the state of a flow. */
  destination?: string
  /** Where the flow file takes the refresh token from: the reference, never the value. */
  place?: string
  /** The code of a refusal, or of a destination's answer. */
  code?: string
  count?: number
  pending?: number
  nextTryAt?: string
}

/** A state with its reason. `cause` is null only for `ok`. */
export type Health = {
  state: HealthState
  cause: Cause | null
  since: Date | null
  about: Particulars
}

/**
 * What a state is of. `scope` is the client of a box or a connection, or the flow of a destination, and empty otherwise;
 * `name` is the caja_id, the flow or the destination, and empty for a connection.
 */
export type Subject = { kind: SubjectKind; scope: string; name: string }

export const subjectKinds = ['box', 'connection', 'flow', 'destination'] as const
export type SubjectKind = (typeof subjectKinds)[number]

export type BoxHealth = Health & {
  client: ClientName
  cajaId: string
  sucursalId: string
  terminalId: string | null
}
export type ConnectionHealth = Health & { client: ClientName }
export type DestinationHealth = Health & { name: string; nextTryAt: Date | null; pending: number }
export type FlowHealth = Health & { flow: string; destinations: DestinationHealth[] }

/** All states derived at one moment. */
export type FleetHealth = {
  at: Date
  boxes: BoxHealth[]
  connections: ConnectionHealth[]
  flows: FlowHealth[]
}

/** A state with its reason. */
export function healthOf(
  state: HealthState,
  cause: Cause | null,
  since: Date | null = null,
  about: Particulars = {},
): Health {
  return { state, cause, since, about }
}

/** Whether a person should act. */
export function isProblem({ state }: Pick<Health, 'state'>): boolean {
  return state === 'attention' || state === 'down'
}

/** Every derived state with its subject. */
export function listHealth(health: FleetHealth): { subject: Subject; health: Health }[] {
  return [
    ...health.boxes.map((box) => ({
      subject: subject('box', box.client, box.cajaId),
      health: box,
    })),
    ...health.connections.map((one) => ({
      subject: subject('connection', one.client, ''),
      health: one,
    })),
    ...health.flows.flatMap((flow) => [
      { subject: subject('flow', '', flow.flow), health: flow },
      ...flow.destinations.map((one) => ({
        subject: subject('destination', flow.flow, one.name),
        health: one,
      })),
    ]),
  ]
}

export function subject(kind: SubjectKind, scope: string, name: string): Subject {
  return { kind, scope, name }
}

/** The key of a subject in a map. */
export function subjectKey({ kind, scope, name }: Subject): string {
  return JSON.stringify([kind, scope, name])
}

/** The part of it that is of these stores; the connection is of all. */
export function healthOfStores(health: FleetHealth, stores: StoresSeen): FleetHealth {
  if (stores === undefined) return health
  const isSeen = ({ sucursalId }: BoxHealth) => stores.includes(sucursalId)
  return { ...health, boxes: health.boxes.filter(isSeen), flows: [] }
}
