import type { ClientName } from '../domain/client-name.ts'
import type { Cause } from './causes.ts'

/**
 * `ok`: it was seen to work a short while ago. `attention`: it works, and somebody should look before it does not. `down`: it
 * cannot work now. `unknown`: nothing was seen that would tell.
 */
export const healthStates = ['ok', 'attention', 'down', 'unknown'] as const
export type HealthState = (typeof healthStates)[number]

/** What fills the sentences about a state. */
export type Particulars = {
  terminalId?: string
  /** The sale that holds a terminal or is in doubt, by the ERP's reference; and its id here. */
  reference?: string
  orderId?: string
  /** The ERP's reference of what was charged instead of it. */
  instead?: string
  /** The destination that a flow has its state of. */
  destination?: string
  /** Where the flow file takes the refresh token from; its reference, never its value. */
  place?: string
  /** The kind of call that fails. */
  operation?: string
  /** What a refusal was called, or what a destination answered. */
  code?: string
  count?: number
  owed?: number
  nextTryAt?: string
}

/** A state with what it rests on. `cause` is null only for what is well. */
export type Health = {
  state: HealthState
  cause: Cause | null
  since: Date | null
  about: Particulars
}

/**
 * What a state is of. `scope` is the client of a box or a connection, or the flow of a destination, and empty otherwise;
 * `name` is the caja_id, the operation, the flow or the destination, and empty for a connection.
 */
export type Subject = { kind: SubjectKind; scope: string; name: string }

export const subjectKinds = ['box', 'connection', 'provider', 'flow', 'destination'] as const
export type SubjectKind = (typeof subjectKinds)[number]

export type BoxHealth = Health & {
  client: ClientName
  cajaId: string
  sucursalId: string
  terminalId: string | null
}
export type ConnectionHealth = Health & { client: ClientName }
export type OperationHealth = Health & { operation: string }
export type DestinationHealth = Health & { name: string; nextTryAt: Date | null; owed: number }
export type FlowHealth = Health & { flow: string; destinations: DestinationHealth[] }

/** Everything that was derived at one moment. */
export type FleetHealth = {
  at: Date
  boxes: BoxHealth[]
  connections: ConnectionHealth[]
  provider: OperationHealth[]
  flows: FlowHealth[]
}

/** Whether somebody should do something about it. */
export function isProblem({ state }: Pick<Health, 'state'>): boolean {
  return state === 'attention' || state === 'down'
}

/** Every state of a derivation with what it is of. */
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
    ...health.provider.map((one) => ({
      subject: subject('provider', '', one.operation),
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

/** Names a subject within a map. */
export function subjectKey({ kind, scope, name }: Subject): string {
  return JSON.stringify([kind, scope, name])
}
