import type { SourceItem, Truth } from './truth.ts'

export type Arrival = {
  pk: string
  kind: 'upsert' | 'delete'
  /** The body; undefined for a delete. */
  body: SourceItem | undefined
  /** Method and path of its request: another one is another request, under another key. */
  address: string
  /** The idempotency key. */
  key: string
  /** It was held up on its way while its sender stood still, or has given it up: what came meanwhile has overtaken it. */
  isLate?: boolean
}

/** What the receiver has last seen of an item: the revision, or the removal that a delete stands for. */
type Seen = { rev: number; removed: boolean }

/**
 * What one target of a flow was sent, and whether that keeps the promises. The target may have taken a request whatever it
 * answered, so order is judged by what reached it.
 */
export class Ledger {
  readonly violations: string[] = []
  /**
   * The same may come again under another key: after a process stood still, of what it may have overtaken, and after somebody
   * asked for all of it.
   */
  maySendOnceMore = false
  /** Why something must not arrive now; undefined when it may. */
  forbids: ((arrival: Arrival) => string | undefined) | undefined
  readonly counts = { arrivals: 0, acknowledged: 0, resent: 0, overtaken: 0 }
  /** How often the target was told what it had not been told; at rest that comes to an end, whatever is sent again. */
  advances = 0
  readonly #truth: Truth
  readonly #withDeletes: boolean
  readonly #target = new Map<string, number>()
  readonly #seen = new Map<string, Seen>()
  readonly #acknowledged = new Map<string, number>()
  readonly #keyOf = new Map<string, string>()
  readonly #contentOf = new Map<string, string>()

  constructor(truth: Truth, options: { withDeletes: boolean }) {
    this.#truth = truth
    this.#withDeletes = options.withDeletes
  }

  /** A request has reached the target. */
  arrived(arrival: Arrival): void {
    this.counts.arrivals += 1
    this.#judgeKey(arrival)
    const why = this.forbids?.(arrival)
    if (why !== undefined) this.violated(`${arrival.pk}: ${arrival.kind} although ${why}`)
    if (arrival.isLate) this.#noteLate(arrival)
    else if (arrival.kind === 'delete') this.#judgeDelete(arrival.pk)
    else this.#judgeUpsert(arrival.pk, arrival.body)
  }

  /** The target has done what the request asks for. */
  applied({ pk, body }: Arrival): void {
    if (body) this.#target.set(pk, body.rev)
    else this.#target.delete(pk)
  }

  /** The target has said yes to the request. */
  acknowledged({ pk, body }: Arrival): void {
    this.counts.acknowledged += 1
    if (body) this.#acknowledged.set(pk, Math.max(this.#acknowledged.get(pk) ?? 0, body.rev))
  }

  /** Somebody at the target has removed these, or all. */
  lost(pk?: string): void {
    if (pk === undefined) this.#target.clear()
    else this.#target.delete(pk)
  }

  /** The service says that the target has this revision of an item. */
  saidInSync(pk: string, rev: number): void {
    if ((this.#acknowledged.get(pk) ?? 0) >= rev) return
    this.violated(`${pk}: said to be in sync with revision ${rev}, which nobody took`)
  }

  /** The removal, by its revision, that a delete which arrives now may stand for: the first that the target was not told of. */
  removalTold(pk: string): number | undefined {
    const seen = this.#seen.get(pk)
    return seen?.removed ? seen.rev : this.#truth.removalAfter(pk, seen?.rev ?? 0)
  }

  /** Whether something newer has arrived than this. Of a delete nobody can tell which removal it stands for. */
  hasOvertaken({ pk, body }: Arrival): boolean {
    const seen = this.#seen.get(pk)
    return seen !== undefined && (!body || body.rev < seen.rev)
  }

  violated(what: string): void {
    this.violations.push(what)
  }

  /** In what source and target differ; nothing once the flow has come to rest. */
  differences(): string[] {
    const found: string[] = []
    const items = this.#truth.items()
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

  #judgeKey({ pk, kind, body, key, address }: Arrival): void {
    const content = JSON.stringify([address, pk, kind, body])
    const before = this.#keyOf.get(content)
    if (key === '') this.violated(`${pk}: a request without a key`)
    if (before !== undefined) {
      this.counts.resent += 1
      // Deletes look alike, also those of later removals.
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

  #judgeUpsert(pk: string, body: SourceItem | undefined): void {
    if (!body || body.id !== pk || !this.#truth.had(body)) {
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

  #judgeDelete(pk: string): void {
    const seen = this.#seen.get(pk)
    // The same delete again, or one for a later removal: they look alike.
    if (seen?.removed) return
    const rev = this.#truth.removalAfter(pk, seen?.rev ?? 0)
    if (rev === undefined || !this.#withDeletes) {
      this.violated(`${pk}: deleted although the source kept it since ${seen?.rev ?? 'ever'}`)
      return
    }
    this.advances += 1
    this.#seen.set(pk, { rev, removed: true })
  }

  #noteLate(arrival: Arrival): void {
    if (this.hasOvertaken(arrival)) this.counts.overtaken += 1
  }
}
