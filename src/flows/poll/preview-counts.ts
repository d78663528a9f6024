import { contentBytesKept } from '../../repositories/flows/item-versions.ts'
import type {
  DestinationPreview,
  SampledChange,
  SyncPreview,
} from '../control/control-service-types.ts'
import type { DeliveryPreview, PreviewedChange } from '../deliver/delivery-preview.ts'
import type { SourceWarning } from '../types.ts'
import type { FoundChange, ReadBatch } from './read-and-compare.ts'

/** `value` is null if the content was too large to keep. */
export type Sampled = Pick<SampledChange, 'pk' | 'kind'> & { value: Record<string, unknown> | null }

/** Counts the results of a preview and keeps some examples of each. */
export type Tally = {
  rowsRead: number
  count(batch: ReadBatch, changes: readonly FoundChange[]): void
  /** Warnings of the source. */
  warn(warning: SourceWarning): void
  /** How many problems stop deletes. */
  blockingProblems(): number
  /** The read left out records that a later one gives. */
  isCut(): boolean
  sampleDeleted(pks: readonly string[]): void
  countDeletes(count: number): void
  /** Checks the change with each destination. Returns false when enough were checked. */
  tryOut(change: PreviewedChange): Promise<boolean>
  sampled(): Sampled[]
  report(): Pick<SyncPreview, 'rowsRead' | 'changes' | 'items' | 'destinations' | 'problems'>
}

type Refusals = DestinationPreview['refusals']

const sampleSize = 20
const problemsShown = 20
const refusalsShown = 5
/** Mapping is the slow part of a preview, and its errors show long before this number. */
const triedAtMost = 10_000

export function createTally(deliveryPreviews: readonly DeliveryPreview[]): Tally {
  const items = { new: 0, changed: 0, unchanged: 0, filtered: 0, duplicate: 0, rejected: 0 }
  const problems: SyncPreview['problems'] = []
  const kinds: Record<SampledChange['kind'], Sampled[]> = { changed: [], new: [], deleted: [] }
  const targets = deliveryPreviews.map(({ name, type, check }) => {
    const found = { name, type, skipped: 0, refused: 0, refusals: [] as Refusals }
    return { check, found }
  })
  let upserts = 0
  let incomplete = 0
  let deletes = 0
  let tried = 0

  const sample = ({ item, kind }: FoundChange) => {
    if (kinds[kind].length >= sampleSize) return
    const isLarge = Buffer.byteLength(JSON.stringify(item.value)) > contentBytesKept
    kinds[kind].push({ pk: item.pk, kind, value: isLarge ? null : item.value })
  }

  const tally: Tally = {
    rowsRead: 0,
    count(batch, changes) {
      for (const { pk, why, isDuplicate } of batch.problems) {
        items[isDuplicate ? 'duplicate' : 'rejected'] += 1
        if (problems.length < problemsShown) problems.push({ pk, why })
      }
      items.filtered += batch.filtered
      items.unchanged += batch.items.length - changes.length
      for (const change of changes) {
        items[change.kind] += 1
        upserts += 1
        sample(change)
      }
    },
    warn({ why, isIncomplete }) {
      if (isIncomplete) incomplete += 1
      if (problems.length < problemsShown) problems.push({ pk: null, why })
    },
    blockingProblems: () => items.rejected + incomplete,
    isCut: () => incomplete > 0,
    sampleDeleted(pks) {
      for (const pk of pks.slice(0, sampleSize - kinds.deleted.length)) {
        kinds.deleted.push({ pk, kind: 'deleted', value: null })
      }
    },
    countDeletes(count) {
      deletes = count
    },
    async tryOut(change) {
      if (tried >= triedAtMost) return false
      for (const { check, found } of targets) {
        const outcome = await check(change)
        if (outcome === undefined) continue
        if ('skipped' in outcome) {
          found.skipped += 1
          continue
        }
        found.refused += 1
        if (found.refusals.length < refusalsShown) {
          found.refusals.push({ pk: change.pk, why: outcome.refused })
        }
      }
      tried += 1
      return true
    },
    sampled() {
      // Alternates, so that many of one kind do not hide the others.
      const lists = Object.values(kinds)
      const taken = new Set(
        Array.from({ length: sampleSize }, (_, place) => lists.map((list) => list[place]))
          .flat()
          .filter((one) => one !== undefined)
          .slice(0, sampleSize),
      )
      return lists.flat().filter((one) => taken.has(one))
    },
    report: () => ({
      rowsRead: tally.rowsRead,
      changes: upserts + deletes,
      items: { ...items },
      destinations: targets.map(({ found }) => ({ ...found, upserts, deletes, tried })),
      problems,
    }),
  }
  return tally
}
