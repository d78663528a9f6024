import type { Leader, Term } from '../../jobs/leader.ts'
import type { FlowRuntime } from '../item/flow-runtime.ts'
import { createItemKeys, type ItemKeys } from '../item/key-set.ts'

/** What the last poll of a flow has left in the database. */
type Kept = { runtime: FlowRuntime; term: Term; stamp: string; keys: ItemKeys }

/**
 * The hashes of items between the polls of a flow, so that an unchanged item needs no look-up. They only say that an item is
 * unchanged; of each other one the database is asked.
 *
 * They belong to one term of the leader. They count only while the database still has the stamp that the last poll wrote in
 * its last transaction: each other writer of items replaces it, and a replica or backup without the last commits has an
 * older one.
 */
export type ItemMemory = {
  /** The keys for a poll that begins; `stamp` is the one that it found. They are not kept unless it gives them back. */
  take(runtime: FlowRuntime, stamp: string | null): ItemKeys
  /** After the commit that wrote this stamp. */
  keep(runtime: FlowRuntime, stamp: string, keys: ItemKeys): void
}

export function createItemMemory(
  leader: Pick<Leader, 'current'>,
  { mostItems }: { mostItems: number },
): ItemMemory {
  const flows = new Map<string, Kept>()

  const dropFormerTerms = (present: Term | undefined) => {
    for (const [flow, { term }] of flows) if (term !== present) flows.delete(flow)
  }
  const room = () => {
    const used = [...flows.values()].reduce((sum, { keys }) => sum + keys.kept, 0)
    return mostItems - used
  }

  return {
    take(runtime, stamp) {
      const { name } = runtime.flow
      const kept = flows.get(name)
      flows.delete(name)
      const isPresent =
        kept?.runtime === runtime && kept.stamp === stamp && kept.term === leader.current()
      if (!isPresent) return createItemKeys()
      kept.keys.begin()
      return kept.keys
    },
    keep(runtime, stamp, keys) {
      const term = leader.current()
      dropFormerTerms(term)
      if (!term || keys.kept > room()) return
      flows.set(runtime.flow.name, { runtime, term, stamp, keys })
      term.signal.addEventListener('abort', () => dropFormerTerms(undefined), { once: true })
    },
  }
}
