import type { Flow } from '../definition/schema.ts'
import type { Source } from '../types.ts'
import type { ItemReader } from './item.ts'

/** How consecutive records become one item; see item/group-rows.ts. */
export type GroupBy = { children: Readonly<Record<string, readonly string[]>> }

/** A field of a record, and the keys of the definition that use it. */
export type UsedField = { field: string; usedBy: readonly string[] }

/** A flow that is ready to poll: its definition with everything opened and compiled. */
export type FlowRuntime = {
  flow: Flow
  definitionHash: string
  /**
   * Identifies the form of items: hashes of an equal form can be compared even if the definition changed. The part
   * after a slash identifies the form of the key.
   */
  itemForm: string
  source: Source
  /** Set if items consist of several records. Then a repeated key means an incomplete group. */
  groupBy?: GroupBy | undefined
  /** Identities of the source and of the destinations by name; see definition/identity.ts. */
  identities: { source: string; destinations: Readonly<Record<string, string>> }
  /** What each destination is sent, by name; see definition/definition-hash.ts. */
  forms: Readonly<Record<string, string>>
  /**
   * Where an incremental read continues; undefined if the source is always read completely. A position of another
   * `origin` (query and field) is not valid.
   */
  cursor: { field: string; overlapMs: number; origin: string } | undefined
  fullScanEveryMs: number | undefined
  read: ItemReader['read']
  /** The fields that records must have; see poll/missing-fields.ts. */
  usedFields: readonly UsedField[]
}
