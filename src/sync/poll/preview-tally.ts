import { sentenceOf } from '../../domain/flow-reasons.ts'
import { contentBytesKept } from '../../repositories/flows/item-versions.ts'
import type { Rehearsal, RehearsedChange } from '../deliver/rehearse.ts'
import type { DestinationPreview, SampledChange, SyncPreview } from '../sync-preview.ts'
import type { SourceWarning } from '../types.ts'
import type { FoundChange } from './item-changes.ts'
import type { ReadBatch } from './read-items.ts'

/** `value` is null for content that is too large to be kept. */
export type Sampled = Pick<SampledChange, 'pk' | 'kind'> & { value: Record<string, unknown> | null }

/** What a preview counts and keeps; some of each, however much there is. */
export type Tally = {
  rowsRead: number
  count(batch: ReadBatch, changes: readonly FoundChange[]): void
  /** What the source says beside its records. */
  warn(warning: SourceWarning): void
  /** How much was found that holds deletes back. */
  inTheWay(): number
  /** Records were left out that a later read gives. */
  isCut(): boolean
  sampleDeleted(pks: readonly string[]): void
  countDeletes(count: number): void
  /** Asks each destination whether it could take the change; false when enough were asked about. */
  tryOut(change: RehearsedChange): Promise<boolean>
  sampled(): Sampled[]
  report(): Pick<SyncPreview, 'rowsRead' | 'changes' | 'items' | 'destinations' | 'problems'>
}

const sampleSize = 20
const problemsShown = 20
const refusalsShown = 5
/** Mapping is the dear part of a preview, and what is wrong with a mapping shows long before. */
const triedAtMost = 10_000

export function createTally(rehearsals: readonly Rehearsal[]): Tally {
  const items = { new: 0, changed: 0, unchanged: 0, filtered: 0, duplicate: 0, rejected: 0 }
  const problems: SyncPreview['problems'] = []
  const kinds: Record<SampledChange['kind'], Sampled[]> = { changed: [], new: [], deleted: [] }
  const refusals = rehearsals.map((): DestinationPreview['refusals'] => [])
  const refused = rehearsals.map(() => 0)
  const skipped = rehearsals.map(() => 0)
  let owed = 0
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
      for (const { pk, message, isDuplicate } of batch.problems) {
        items[isDuplicate ? 'duplicate' : 'rejected'] += 1
        if (problems.length < problemsShown) problems.push({ pk, message })
      }
      items.filtered += batch.filtered
      items.unchanged += batch.items.length - changes.length
      for (const change of changes) {
        items[change.kind] += 1
        if (!change.isOwed) continue
        owed += 1
        sample(change)
      }
    },
    warn({ message, isIncomplete }) {
      if (isIncomplete) incomplete += 1
      if (problems.length < problemsShown) problems.push({ pk: null, message })
    },
    inTheWay: () => items.rejected + incomplete,
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
      for (const [index, rehearsal] of rehearsals.entries()) {
        const foreseen = await rehearsal.foresee(change)
        if (foreseen === undefined) continue
        if ('skipped' in foreseen) {
          skipped[index] = (skipped[index] ?? 0) + 1
          continue
        }
        const reason = sentenceOf(foreseen.refused, 'en')
        refused[index] = (refused[index] ?? 0) + 1
        const shown = refusals[index]
        if (shown && shown.length < refusalsShown) shown.push({ pk: change.pk, reason })
      }
      tried += 1
      return true
    },
    sampled() {
      // In turns, so that a flood of one kind does not hide the others.
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
      changes: owed + deletes,
      items: { ...items },
      destinations: rehearsals.map(({ name, type }, index) => ({
        name,
        type,
        upserts: owed,
        deletes,
        tried,
        skipped: skipped[index] ?? 0,
        refused: refused[index] ?? 0,
        refusals: refusals[index] ?? [],
      })),
      problems,
    }),
  }
  return tally
}
