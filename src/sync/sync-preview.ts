import type { Difference } from './item/differences.ts'
import type { Turn } from './poll/plan.ts'

/** At which of them the reading is cut off. */
export type PreviewLimits = { maxRows: number; maxSeconds: number }

/** What a poll would do now. With `cutOff` not everything was read, and every count is the least it can be. */
export type SyncPreview = {
  turn: Turn
  /** What is another one than before: of a destination how many items would be sent to it once that is approved. */
  identity: { sourceChanged: boolean; destinations: { name: string; items: number }[] }
  /** What the poll would read; null when it would read nothing. */
  scan: { kind: 'full' | 'incremental'; since: string | null } | null
  cutOff: 'rows' | 'time' | null
  rowsRead: number
  durationMs: number
  /** What the poll would answer: items to be sent, deletes included. */
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
  /** The first records that are no items, repeated ones, and what the source warns of (without a key). */
  problems: { pk: string | null; message: string }[]
  sample: SampledChange[]
}

export type DeletesPreview = {
  /** `not_asked`: this poll would not look for what is gone. `unknown`: the source was not read to its end. */
  verdict: 'none' | 'send' | 'hold_back' | 'not_asked' | 'unknown'
  count: number | null
  /** For people. */
  reason: string | null
}

export type DestinationPreview = {
  name: string
  type: string
  upserts: number
  deletes: number
  /** How many of them were mapped and checked. */
  tried: number
  /** Of those, how many the destination is not to have. */
  skipped: number
  /** Of those, how many could not be delivered. */
  refused: number
  refusals: { pk: string; reason: string }[]
}

export type SampledChange = {
  pk: string
  kind: 'new' | 'changed' | 'deleted'
  /** How `differences` came to be; they are empty unless `compared`. */
  comparison: 'compared' | 'first' | 'deleted' | 'too_large'
  differences: Difference[]
  differenceCount: number
}
