import type { ClientName } from '../domain/client-name.ts'
import type { ErrorCode } from '../errors/app-error.ts'
import type { BoxChargeRow, UndecidedRow } from '../repositories/fleet/fleet-observations.ts'

/** A charge of a box, as far as it tells something about the box. */
export type ChargeSeen = Omit<BoxChargeRow, 'client' | 'cajaId'>

/** Charges of a box that were not made, in a row for the same reason. */
export type RefusalSeen = { code: ErrorCode; since: Date; at: Date; count: number }

/** What was last read about the terminals of a box, by somebody who only looked. */
export type TerminalSeen = {
  found: 'pdv' | 'standalone' | 'missing'
  terminalId: string | null
  since: Date
  at: Date
}

export type BoxSeen = {
  client: ClientName
  cajaId: string
  sucursalId: string
  /** Newest first, a few. */
  charges: readonly ChargeSeen[]
  /** The newest order of whose money a person must decide. */
  undecided: Omit<UndecidedRow, 'client' | 'cajaId'> | null
  refusal: RefusalSeen | null
  terminal: TerminalSeen | null
  /** Charges that it usually makes in an hour at this time of the week; null when too little is known. */
  usualPerHour: number | null
}

export type ConnectionSeen = {
  client: ClientName
  status: 'connected' | 'lost' | 'none'
  /** It may be connected to one account only. */
  isPinned: boolean
  expiresAt: Date | null
  isRenewable: boolean
  refreshedAt: Date | null
  /** When a renewal was begun that has not ended. */
  refreshStartedAt: Date | null
  /** Ends of orders that were found by looking since the last webhook, and the first of them. */
  untold: { count: number; since: Date } | null
  /** Payments of the provider that cannot be read, and when the first of them was seen. */
  unreadable: { count: number; since: Date } | null
}

/** Attempts of one kind of call within a short time. */
export type CallSlot = {
  at: Date
  answered: number
  failed: number
  throttled: number
  lastCode: string | null
}

/** The slots of one kind of call, newest first. */
export type OperationSeen = { operation: string; slots: readonly CallSlot[] }

/** Nobody renews the access to a source or a destination any more. */
export type AccessLost = { since: Date; code: string | null; place: string }

export type DestinationSeen = {
  name: string
  accessLost: AccessLost | null
  sending: {
    state: 'flowing' | 'silent' | 'open' | 'probing'
    cause: string | null
    since: Date | null
    nextAttemptAt: Date | null
  }
  owed: number
  oldestOwedAt: Date | null
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
  heldBack: string | null
  /** To its source. */
  accessLost: AccessLost | null
  /** Since when a poll should have begun; null when none is due. */
  dueSince: Date | null
  lastPollAt: Date | null
  lastSuccessAt: Date | null
  /** Of its newest poll. */
  lastError: string | null
  destinations: readonly DestinationSeen[]
}

export type Observations = {
  boxes: readonly BoxSeen[]
  connections: readonly ConnectionSeen[]
  operations: readonly OperationSeen[]
  flows: readonly FlowSeen[]
}
