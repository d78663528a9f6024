import type { Flow } from './definition/schema.ts'
import type { ItemReader } from './item/item.ts'
import type { UsedField } from './poll/missing-fields.ts'
import type { Source } from './types.ts'

/** A flow that is ready to be polled: its definition with everything that was opened and compiled for it. */
export type FlowRuntime = {
  flow: Flow
  definitionHash: string
  /** Of what decides how an item looks: where it is the same, hashes can be compared whatever else of the definition changed; and behind a slash, of what decides its key. */
  itemForm: string
  source: Source
  /** What source and destinations (by name) are, whatever they are called; see definition/identity.ts. */
  identities: { source: string; destinations: Readonly<Record<string, string>> }
  /**
   * Where an incremental read goes on; undefined when the source is always read whole. A position is worth nothing where
   * `origin` is another: that is what is read and by which field.
   */
  cursor: { field: string; overlapMs: number; origin: string } | undefined
  fullScanEveryMs: number | undefined
  read: ItemReader['read']
  hashOver: ItemReader['hashOver']
  /** The fields that records must have; see poll/missing-fields.ts. */
  usedFields: readonly UsedField[]
  /** The key fields of an item, for a delete, when nothing else of it is known. */
  keyValue: (pk: string) => Record<string, unknown>
}
