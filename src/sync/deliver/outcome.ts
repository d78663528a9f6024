export type Failure = {
  /** For people; at most 1,000 characters. */
  reason: string
  status: number | null
  /** The attempts made of this version, this one included. */
  attempts: number
}

/** What became of a claim, about the version of the row that was read for it. */
export type Outcome =
  | { kind: 'delivered'; version: number; hash: string }
  | { kind: 'retry'; version: number; failure: Failure; delayMs: number }
  | { kind: 'final'; version: number; failure: Failure }
  /** No attempt was made, or one that the service itself broke off: none is counted. */
  | { kind: 'postponed'; version: number; delayMs: number }
  /** There was nothing to do. */
  | { kind: 'nothing' }

/** A delivery that will not be tried again by itself. */
export type FinalFailure = Failure & {
  flow: string
  destination: string
  pk: string
  at: Date
}
