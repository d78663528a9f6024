import type { ClientName } from '../domain/client-name.ts'
import type { ErrorCode } from '../errors/app-error.ts'
import type { EndpointTrouble } from '../repositories/events/event-endpoints.ts'
import type {
  BoxChargeRow,
  ClientConnectionRow,
  UndecidedRow,
} from '../repositories/fleet/fleet-observations.ts'

/** The fields of a charge that show the state of its box. */
export type ChargeSeen = Omit<BoxChargeRow, 'client' | 'cajaId'>

/** Consecutive refused charges of a box with the same reason. */
export type RefusalSeen = { code: ErrorCode; since: Date; at: Date; count: number }

/** The last read of the terminal of a box outside of a charge. */
type TerminalSeen = {
  found: 'pdv' | 'standalone' | 'missing'
  terminalId: string | null
  since: Date
  at: Date
}

export type BoxSeen = {
  client: ClientName
  cajaId: string
  sucursalId: string
  /** A few, newest first. */
  charges: readonly ChargeSeen[]
  /** The newest order whose money a person must decide about. */
  undecided: Omit<UndecidedRow, 'client' | 'cajaId'> | null
  refusal: RefusalSeen | null
  terminal: TerminalSeen | null
}

export type ConnectionSeen = ClientConnectionRow & {
  /** Ends of orders that status checks found since the last webhook, and when the first was found. */
  withoutWebhook: { count: number; since: Date } | null
  /** Payments of the provider that cannot be read, and when the first was seen. */
  unreadable: { count: number; since: Date } | null
  /** Endpoints of events that do not get them. */
  endpoints: Omit<EndpointTrouble, 'client'> | null
}

/** The access to a source or a destination can no longer be renewed. */
export type AccessLost = { since: Date; code: string | null; place: string }

export type DestinationSeen = {
  name: string
  accessLost: AccessLost | null
  sending: {
    state: 'flowing' | 'stopped' | 'silent' | 'open' | 'probing'
    cause: string | null
    since: Date | null
    nextAttemptAt: Date | null
  }
  pending: number
  oldestWaitingAt: Date | null
  failed: number
}

export type FlowSeen = {
  flow: string
  pollIntervalMs: number
  isPaused: boolean
  pausedAt: Date | null
  /** Its run limit is used up. */
  isLimited: boolean
  isPolling: boolean
  /** Since when the question about its definition has no answer; null without one. */
  askedAt: Date | null
  /** The lost access to its source. */
  accessLost: AccessLost | null
  /** Since when a poll is due; null if none is. */
  dueSince: Date | null
  lastPollAt: Date | null
  lastSuccessAt: Date | null
  /** The error of its newest poll. */
  lastError: string | null
  destinations: readonly DestinationSeen[]
}

export type Observations = {
  boxes: readonly BoxSeen[]
  connections: readonly ConnectionSeen[]
  flows: readonly FlowSeen[]
}

/** The key of a box in a map. */
export function boxKey({ client, cajaId }: { client: string; cajaId: string }): string {
  return JSON.stringify([client, cajaId])
}
