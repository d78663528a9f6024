import type { Reason } from '../../domain/flow-reasons.ts'
import type { Remembered } from '../types.ts'

export type Failure = {
  why: Reason
  status: number | null
  /** The attempts made of this version, this one included. */
  attempts: number
}

/** The change that an attempt was about, and the version of the row that had it. */
export type Tried = { version: number; change: 'upsert' | 'delete'; hash: string }

/** Of an upsert that was begun and may have arrived: what a later delete needs of its body. */
export type Unanswered = { begun?: { fields: unknown } }

/** What became of a claim, about the version of the row that was read for it. */
export type Outcome =
  | (Tried & {
      kind: 'delivered'
      /** The attempts made of this version, this one included. */
      attempts: number
      status: number | null
      /** To be remembered of the item. */
      remember?: Remembered | undefined
      /** What was remembered of it holds no longer. */
      forget?: boolean
      /** What tells the body from others, of an upsert; see item-body.ts. */
      body?: string
      /** What a later delete needs of the body. */
      fields?: unknown
    })
  /** The destination has this body already: nothing was sent. */
  | (Tried & { kind: 'unchanged'; body: string })
  | (Tried &
      Unanswered & {
        kind: 'retry'
        failure: Failure
        delayMs: number
        remember?: Remembered | undefined
        forget?: boolean
      })
  | (Tried & Unanswered & { kind: 'final'; failure: Failure })
  /** The destination is not to have the item. */
  | (Tried & { kind: 'skipped'; why: Reason })
  /** No attempt was made, or one that the service itself broke off: none is counted. */
  | (Unanswered & {
      kind: 'postponed'
      version: number
      delayMs: number
      /** It was broken off after its beginning, so it may have arrived. */
      mayHaveArrived: boolean
    })
  /** There was nothing to do. */
  | { kind: 'nothing' }

/** A delivery that will not be tried again by itself. */
export type FinalFailure = Failure & {
  flow: string
  destination: string
  pk: string
  at: Date
}
