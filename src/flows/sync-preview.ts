import type { Reason } from '../domain/flow-reasons.ts'
import type { Difference } from './item/differences.ts'
import type { PollKind } from './poll/plan.ts'

/** The limits at which the read is cut off. */
export type PreviewLimits = { maxRows: number; maxSeconds: number }

/** What a poll would do now. With `cutOff` not everything was read, and every count is a minimum. */
export type SyncPreview = {
  pollKind: PollKind
  /** Changed identities; for a destination how many items it would get after approval. */
  identity: { sourceChanged: boolean; destinations: { name: string; items: number }[] }
  /** What the poll would read; null if it would read nothing. */
  scan: { kind: 'full' | 'incremental'; since: string | null } | null
  cutOff: 'rows' | 'time' | null
  rowsRead: number
  durationMs: number
  /** How many changes the poll would send, including deletes. */
  changes: number
  items: {
    new: number
    changed: number
    unchanged: number
    filtered: number
    duplicate: number
    rejected: number
  }
  deletes: DeletesPreview
  destinations: DestinationPreview[]
  /** The first invalid or repeated records, and warnings of the source (without a key). */
  problems: { pk: string | null; why: Reason }[]
  sample: SampledChange[]
}

export type DeletesPreview = {
  /** `not_asked`: this poll would not look for missing items. `unknown`: the source was not read completely. */
  verdict: 'none' | 'send' | 'hold_back' | 'not_asked' | 'unknown'
  count: number | null
  /** Why deletes are not sent, or not known. */
  why: Reason | null
}

export type DestinationPreview = {
  name: string
  type: string
  upserts: number
  deletes: number
  /** How many of them were mapped and checked. */
  tried: number
  /** Of those, how many the destination must not get. */
  skipped: number
  /** Of those, how many could not be delivered. */
  refused: number
  refusals: { pk: string; why: Reason }[]
}

export type SampledChange = {
  pk: string
  kind: 'new' | 'changed' | 'deleted'
  /** Where `differences` come from; they are empty unless `compared`. */
  comparison: 'compared' | 'first' | 'deleted' | 'too_large'
  differences: Difference[]
  differenceCount: number
}
