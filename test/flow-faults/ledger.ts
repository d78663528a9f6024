import type { SourceHistory, SourceItem } from './source-history.ts'

export type Arrival = {
  pk: string
  kind: 'upsert' | 'delete'
  /** Undefined for a delete. */
  body: SourceItem | undefined
  /** Method and path. A request to another address has another key. */
  address: string
  /** The idempotency key. */
  key: string
  /** It was delayed while its sender was suspended, or its sender gave it up. Newer requests may have overtaken it. */
  isLate?: boolean
}

/** The last state of an item that arrived: its revision, or the revision of the removal that a delete stands for. */
type Seen = { rev: number; removed: boolean }

/**
 * Records what one target of a flow received, and which promises that breaks. The target may have applied a request whatever it
 * answered, so the order of arrival counts.
 */
export class Ledger {
  readonly violations: string[] = []
  /**
   * The same content may come again under another key: after a process was suspended, and after a fill.
   */
  maySendOnceMore = false
  /** The reason why a request must not arrive now; undefined when it may. */
  forbids: ((arrival: Arrival) => string | undefined) | undefined
  readonly counts = { arrivals: 0, acknowledged: 0, resent: 0, overtaken: 0 }
  /** Items whose newer content an upsert of a suspended process overwrote. */
  readonly overwritten = new Set<string>()
  /** The count of arrivals that were new to the target. Repeated requests do not raise it. */
  advances = 0
  readonly #sourceHistory: SourceHistory
  readonly #withDeletes: boolean
  readonly #target = new Map<string, number>()
  readonly #seen = new Map<string, Seen>()
  readonly #acknowledged = new Map<string, number>()
  readonly #keyOf = new Map<string, string>()
  readonly #contentOf = new Map<string, string>()

  constructor(sourceHistory: SourceHistory, options: { withDeletes: boolean }) {
    this.#sourceHistory = sourceHistory
    this.#withDeletes = options.withDeletes
  }

  /** Records that a request reached the target. */
  arrived(arrival: Arrival): void {
    this.counts.arrivals += 1
    this.#checkKey(arrival)
    const why = this.forbids?.(arrival)
    if (why !== undefined) this.violated(`${arrival.pk}: ${arrival.kind} although ${why}`)
    if (arrival.isLate) this.#countLate(arrival)
    else if (arrival.kind === 'delete') this.#checkDelete(arrival.pk)
    else this.#checkUpsert(arrival.pk, arrival.body)
  }

  /** Records that the target applied the request. */
  applied({ pk, body }: Arrival): void {
    if (body) this.#target.set(pk, body.rev)
    else this.#target.delete(pk)
  }

  /** Records that the target answered the request with success. */
  acknowledged({ pk, body }: Arrival): void {
    this.counts.acknowledged += 1
    if (body) this.#acknowledged.set(pk, Math.max(this.#acknowledged.get(pk) ?? 0, body.rev))
  }

  /** Records that an item, or all items, were removed at the target itself. */
  lost(pk?: string): void {
    if (pk === undefined) this.#target.clear()
    else this.#target.delete(pk)
  }

  /** Checks a report of the service that the target has this revision of an item. */
  reportedInSync(pk: string, rev: number): void {
    if ((this.#acknowledged.get(pk) ?? 0) >= rev) return
    this.violated(`${pk}: reported in sync with revision ${rev}, which was never acknowledged`)
  }

  /** The revision of the removal that a delete which arrives now stands for: the first whose delete has not arrived. */
  removalOfNextDelete(pk: string): number | undefined {
    const seen = this.#seen.get(pk)
    return seen?.removed ? seen.rev : this.#sourceHistory.removalAfter(pk, seen?.rev ?? 0)
  }

  /** Whether a newer request has arrived. A delete does not show which removal it stands for. */
  hasOvertaken({ pk, body }: Arrival): boolean {
    const seen = this.#seen.get(pk)
    return seen !== undefined && (!body || body.rev < seen.rev)
  }

  violated(what: string): void {
    this.violations.push(what)
  }

  /** The differences between source and target; none when the flow is complete. */
  differences(): string[] {
    const found: string[] = []
    const items = this.#sourceHistory.items()
    for (const { id, rev } of items) {
      const there = this.#target.get(id)
      if (there !== rev) {
        found.push(`${id}: the source has revision ${rev}, the target ${there ?? 'nothing'}`)
      } else if (this.#acknowledged.get(id) !== rev) {
        found.push(`${id}: revision ${rev} was never acknowledged`)
      }
    }
    if (!this.#withDeletes) return found
    const present = new Set(items.map(({ id }) => id))
    for (const id of this.#target.keys()) {
      if (!present.has(id)) found.push(`${id}: removed from the source, still at the target`)
    }
    return found
  }

  #checkKey({ pk, kind, body, key, address }: Arrival): void {
    const content = JSON.stringify([address, pk, kind, body])
    const before = this.#keyOf.get(content)
    if (key === '') this.violated(`${pk}: a request without a key`)
    if (before !== undefined) {
      this.counts.resent += 1
      // Deletes of an item have the same content, also those of later removals.
      const isFree = this.maySendOnceMore || kind === 'delete'
      if (before !== key && !isFree) {
        this.violated(`${pk}: the same content under another key: ${content}`)
      }
    }
    const other = this.#contentOf.get(key)
    if (other !== undefined && other !== content) {
      this.violated(`${pk}: one key for ${other} and for ${content}`)
    }
    this.#keyOf.set(content, key)
    this.#contentOf.set(key, content)
  }

  #checkUpsert(pk: string, body: SourceItem | undefined): void {
    if (!body || body.id !== pk || !this.#sourceHistory.had(body)) {
      this.violated(`${pk}: the source never had ${JSON.stringify(body)}`)
      return
    }
    const seen = this.#seen.get(pk)
    if (seen && body.rev < seen.rev) {
      const what = seen.removed ? 'the removal at' : 'revision'
      this.violated(`${pk}: revision ${body.rev} came after ${what} ${seen.rev}`)
      return
    }
    if (body.rev !== seen?.rev) this.advances += 1
    this.#seen.set(pk, { rev: body.rev, removed: false })
  }

  #checkDelete(pk: string): void {
    const seen = this.#seen.get(pk)
    // The same delete again, or one for a later removal: both have the same content.
    if (seen?.removed) return
    const rev = this.#sourceHistory.removalAfter(pk, seen?.rev ?? 0)
    if (rev === undefined || !this.#withDeletes) {
      this.violated(`${pk}: deleted although the source kept it since ${seen?.rev ?? 'ever'}`)
      return
    }
    this.advances += 1
    this.#seen.set(pk, { rev, removed: true })
  }

  #countLate(arrival: Arrival): void {
    if (this.hasOvertaken(arrival)) this.counts.overtaken += 1
  }
}
