import type { AskedBody, AskedCounts, StoredQuestion } from '../../db/column-types.ts'
import type { Db } from '../../db/database.ts'
import { yieldToEventLoop } from '../../jobs/yield-to-event-loop.ts'
import type { AskedDelivery } from '../../repositories/flows/asked-deliveries.ts'
import {
  findDeliveries,
  mayBeThere,
  type PendingDelivery,
} from '../../repositories/flows/deliveries.ts'
import { claimRuleOf } from '../deliver/claim-rules.ts'
import type { ClaimRule } from '../deliver/claim-types.ts'
import {
  bodyDigest,
  compileItemBody,
  type ItemBody,
  isSkip,
  MappingError,
} from '../deliver/item-body.ts'
import type { FlowRuntime } from '../item/flow-runtime.ts'
import { excerpt } from '../mapping/excerpt.ts'
import type { Item } from '../types.ts'
import type { Difference } from './poll-plan.ts'
import type { FoundChange } from './read-and-compare.ts'

/** What a destination is sent because of the definition: at once, or when an operator answers. */
export type DestinationBatch = {
  destination: string
  sent: Item[]
  asked: (Omit<AskedDelivery, 'hash'> & { item: Item })[]
  /** What a later delete needs of items that the destination has, where it is not stored. */
  kept: { pk: string; asked: AskedBody }[]
}

/** Compares items with what the destinations have, by a definition that is not accepted yet. It counts what it finds. */
export type DestinationComparison = {
  /** `changes` of the source are left out: all destinations get them. */
  compare(
    db: Db,
    items: readonly Item[],
    changes: readonly FoundChange[],
  ): Promise<DestinationBatch[]>
  /** What to ask, without what the source lost. */
  found(): Required<Pick<StoredQuestion, 'destinations' | 'examples' | 'ofSource'>>
  /**
   * Whether an answer is needed: a destination would be sent something because of the definition, or changes of the source wait
   * for it and no item shows that the definition leaves bodies as they are.
   */
  mustAsk(): boolean
}

type Compared = {
  difference: Difference
  body: ItemBody
  claims: ClaimRule | undefined
  counts: AskedCounts
  /** Items with a change of the source that has not arrived. */
  open: number
}

/** `kept`: more of the body than is stored, for a later delete. */
type Verdict =
  | { kind: 'excluded' | 'sent' }
  | { kind: 'unchanged'; kept?: AskedBody }
  | { kind: 'new' | 'changed'; asked: AskedBody; body: unknown }
  | { kind: 'notMappable' }

const examplesKept = 10
const longestExample = 1_000

export function createComparison(
  { flow }: Pick<FlowRuntime, 'flow'>,
  differences: readonly Difference[],
): DestinationComparison {
  const rules = { key: flow.item.key, deletes: flow.deletes.mode === 'delete' }
  const compared = differences.flatMap((difference): Compared[] => {
    const definition = flow.destinations.find(({ name }) => name === difference.destination)
    if (!definition) return []
    const body = compileItemBody(definition, rules)
    const counts = { new: 0, changed: 0, excluded: 0, notMappable: 0, unchanged: 0 }
    return [{ difference, body, claims: claimRuleOf(definition), counts, open: 0 }]
  })
  const examples: Required<StoredQuestion>['examples'] = []
  let ofSource = 0

  const compareWith = async (
    one: Compared,
    rows: ReadonlyMap<string, PendingDelivery>,
    items: readonly Item[],
    both: ReadonlySet<string>,
  ): Promise<DestinationBatch> => {
    const { difference, body: rule, claims, counts } = one
    const { destination } = difference
    const batch: DestinationBatch = { destination, sent: [], asked: [], kept: [] }
    for (const item of items) {
      await yieldToEventLoop()
      const row = rows.get(item.pk)
      // It waits with a change of the source, which is sent after any answer.
      if (row?.state === 'waiting' && row.kind === 'upsert') {
        one.open += 1
        // Its content may be older, as of an item that returned.
        if (row.hash !== item.hash) batch.sent.push(item)
        continue
      }
      const isOfBoth = both.has(item.pk) || isOpen(rows.get(item.former?.pk ?? item.pk))
      if (isOpen(row) || isOfBoth) {
        one.open += 1
        // Under another key it is sent after any answer, and not if the former key is written back.
        if (isOpen(row)) batch.sent.push(item)
        else batch.asked.push({ item, pk: item.pk, value: item.value, asked: {} })
        continue
      }
      const verdict = await verdictOf({ difference, body: rule, claims }, item, row)
      if (verdict.kind !== 'sent') counts[verdict.kind] += 1
      const { pk, value } = item
      switch (verdict.kind) {
        case 'sent':
          batch.sent.push(item)
          break
        case 'unchanged':
          if (verdict.kept) batch.kept.push({ pk, asked: verdict.kept })
          break
        case 'notMappable':
          batch.asked.push({ item, pk, value, asked: {} })
          break
        case 'new':
        case 'changed': {
          const { kind, asked, body } = verdict
          batch.asked.push({ item, pk, value, asked })
          if (examples.length >= examplesKept) break
          examples.push({ destination, pk, kind, body: excerpt(body, longestExample) })
        }
      }
    }
    return batch
  }

  return {
    async compare(db, items, changes) {
      const keysOf = (cause: FoundChange['cause']) =>
        new Set(changes.filter((one) => one.cause === cause).map(({ item }) => item.pk))
      const [changed, both] = [keysOf('source'), keysOf('both')]
      ofSource += changed.size
      const rest = items.filter(({ pk }) => !changed.has(pk))
      const pks = rest.flatMap(({ pk, former }) =>
        former && former.pk !== pk ? [pk, former.pk] : [pk],
      )
      const batches: DestinationBatch[] = []
      for (const one of compared) {
        const target = { flow: flow.name, destination: one.difference.destination }
        const found = pks.length > 0 ? await findDeliveries(db, target, pks) : []
        batches.push(await compareWith(one, new Map(found.map((row) => [row.pk, row])), rest, both))
      }
      return batches
    },
    found: () => ({
      destinations: compared
        .filter(({ difference }) => difference.how !== 'added')
        .map(({ difference: { destination, how }, counts }) => ({
          ...{ name: destination, isMoved: how === 'moved' },
          ...counts,
        })),
      ofSource: ofSource + Math.max(0, ...compared.map(({ open }) => open)),
      examples,
    }),
    mustAsk: () =>
      compared.some(({ difference: { how }, counts, open }) => {
        if (how === 'added') return false
        if (counts.new + counts.changed + counts.notMappable > 0) return true
        return counts.unchanged === 0 && open + ofSource > 0
      }),
  }
}

/** Whether a change of the source has not arrived, as under the former key of the item. */
function isOpen(row: PendingDelivery | undefined): boolean {
  return row !== undefined && row.state !== 'done'
}

async function verdictOf(
  { difference, body: rule, claims }: Omit<Compared, 'counts' | 'open'>,
  item: Item,
  row: PendingDelivery | undefined,
): Promise<Verdict> {
  const { how } = difference
  const has = how !== 'moved' && row !== undefined && mayBeThere(row)
  if (how === 'added' && !row?.delivered_digest) return { kind: 'sent' }
  let body: unknown
  try {
    body = await rule.ofUpsert(item.value, row?.delivered_body)
  } catch (error) {
    if (!(error instanceof MappingError)) throw error
    return { kind: how === 'added' ? 'sent' : 'notMappable' }
  }
  if (isSkip(body)) return { kind: has ? 'excluded' : 'unchanged' }
  const digest = bodyDigest(body)
  const kept = rule.keptOf(body)
  const asked = { digest, body: kept, claim: claims?.claimOf(body, undefined, item.pk) }
  const isSameRequest = how === 'added' || (how === 'changed' && !difference.parts.has('requests'))
  if (isSameRequest && has && !row.may_have_arrived && row.delivered_digest === digest) {
    const stored = row.delivered_body
    const tellsMore = kept && (!stored || ('whole' in kept && !('whole' in stored)))
    return { kind: 'unchanged', ...(tellsMore && { kept: asked }) }
  }
  if (how === 'added') return { kind: 'sent' }
  return { kind: has ? 'changed' : 'new', asked, body }
}
