import type { FlowRuntime } from '../flow-runtime.ts'
import type { Item } from '../types.ts'

/** An item whose hash is not the stored one. `isOwed`: it is to be sent. */
export type FoundChange = { item: Item; kind: 'new' | 'changed'; isOwed: boolean }

/** The fields that hashes of an earlier version of the service were over, by the form of the hash. */
export type EarlierForms = Readonly<Record<string, readonly string[]>>

/** What is to be sent of what differs from what is stored. */
export type Telling = {
  sendsChanges: boolean
  sendsNews?: boolean
  earlierForms: EarlierForms
  /** Other fields may count from now on: hashes of an earlier version are written anew. */
  renewsHashes?: boolean
}

/** An item that looks as it did, by a hash of an earlier version: `was` is stored, the item's own says the same now. */
export type Renewed = { pk: string; hash: string; was: string }

/**
 * Which of the items changed, against the stored hashes by key. Without `sendsChanges` only what was never seen is owed,
 * without `sendsNews` not that either.
 */
export function changesOf(
  { hashOver }: Pick<FlowRuntime, 'hashOver'>,
  items: readonly Item[],
  stored: ReadonlyMap<string, string>,
  { sendsChanges, sendsNews = true, earlierForms, renewsHashes = false }: Telling,
): { changes: FoundChange[]; renewed: Renewed[] } {
  const changes: FoundChange[] = []
  const renewed: Renewed[] = []
  for (const item of items) {
    const { pk, hash } = item
    const was = stored.get(pk)
    if (was === undefined) changes.push({ item, kind: 'new', isOwed: sendsNews })
    else if (!looksAs(hashOver, item, was, earlierForms)) {
      changes.push({ item, kind: 'changed', isOwed: sendsChanges })
    } else if (renewsHashes && !isContent(hash, was)) renewed.push({ pk, hash, was })
  }
  return { changes, renewed }
}

/** Whether two hashes are of one content, also where the service writes another form of them now. */
export function isContent(hash: string, other: string | undefined): boolean {
  return other !== undefined && hash.endsWith(other.slice(Math.max(0, other.indexOf(':'))))
}

/** Whether an item looks as the stored hash says. One of an earlier version, over some fields, is compared by these. */
export function looksAs(
  hashOver: FlowRuntime['hashOver'],
  item: Item,
  was: string | undefined,
  earlierForms: EarlierForms,
): boolean {
  if (was === undefined) return false
  if (isContent(item.hash, was)) return true
  const form = was.slice(0, was.indexOf(':'))
  const fields = earlierForms[form]
  return fields !== undefined && hashOver(fields, item, form) === was
}
