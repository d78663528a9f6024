import type { FlowRuntime } from '../flow-runtime.ts'
import type { Item } from '../types.ts'

/** An item whose hash is not the stored one. `isOwed`: it is to be sent. */
export type FoundChange = { item: Item; kind: 'new' | 'changed'; isOwed: boolean }

/** What forms of hashes stand for, by their name: the fields that count. */
export type HashForms = Readonly<Record<string, readonly string[]>>

/** What is to be sent of what differs from what is stored. */
export type Telling = { sendsChanges: boolean; sendsNews?: boolean; forms: HashForms }

/** An item that looks as it did, by a hash of another form: `was` is stored, the item's own says the same now. */
export type Restated = { pk: string; hash: string; was: string }

/**
 * Which of the items changed, against the stored hashes by key. Without `sendsChanges` only what was never seen is owed,
 * without `sendsNews` not that either. A
 * stored hash of another form, as before other fields were mapped, is compared in its own form.
 */
export function changesOf(
  { hashes }: Pick<FlowRuntime, 'hashes'>,
  items: readonly Item[],
  stored: ReadonlyMap<string, string>,
  { sendsChanges, sendsNews = true, forms }: Telling,
): { changes: FoundChange[]; restated: Restated[] } {
  const changes: FoundChange[] = []
  const restated: Restated[] = []
  for (const item of items) {
    const was = stored.get(item.pk)
    switch (comparison(hashes, item, was, forms)) {
      case 'same':
        break
      case 'restated':
        restated.push({ pk: item.pk, hash: item.hash, was: was ?? '' })
        break
      default:
        changes.push({
          item,
          kind: was === undefined ? 'new' : 'changed',
          isOwed: was === undefined ? sendsNews : sendsChanges,
        })
    }
  }
  return { changes, restated }
}

/** Whether two hashes are of one content, also where their forms are others. */
export function isContent(hash: string, other: string | undefined): boolean {
  return other !== undefined && hash.endsWith(other.slice(Math.max(0, other.indexOf(':'))))
}

/** Whether an item looks as the stored hash says. */
export function comparison(
  hashes: FlowRuntime['hashes'],
  item: Item,
  was: string | undefined,
  forms: HashForms,
): 'same' | 'restated' | 'different' {
  if (was === undefined) return 'different'
  if (was === item.hash) return 'same'
  const colon = was.indexOf(':')
  const form = was.slice(0, colon)
  if (form === hashes.hashForm) return 'different'
  // What counts was written down alike.
  if (isContent(item.hash, was)) return 'same'
  return hashes.hashAs(item, form, forms[form]) === was ? 'restated' : 'different'
}
