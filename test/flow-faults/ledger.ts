/** An item as the source has it. `rev` grows with every change of the whole source, removals included. */
export type SourceItem = { id: string; rev: number; text: string }

export type Arrival = {
  pk: string
  kind: 'upsert' | 'delete'
  /** The body; undefined for a delete. */
  body: SourceItem | undefined
  /** The header `idempotency-key`. */
  key: string
}

/** What the receiver has last seen of an item: the revision, or the removal that a delete stands for. */
type Seen = { rev: number; removed: boolean }

/**
 * The truth about one flow: what its source had when, what its target was sent, and whether that keeps the promises. The
 * target may have taken a request whatever it answered, so order is judged by what reached it.
 */
export class Ledger {
  readonly violations: string[] = []
  /** After a process stood still, what it may have overtaken is sent once more, under another key. */
  maySendOnceMore = false
  readonly counts = { arrivals: 0, acknowledged: 0, resent: 0 }
  readonly #withDeletes: boolean
  readonly #source = new Map<string, SourceItem>()
  /** Every content that the source ever had, by item and revision. */
  readonly #texts = new Map<string, string>()
  /** Revisions at which an item was removed, in order. */
  readonly #removals = new Map<string, number[]>()
  readonly #target = new Map<string, number>()
  readonly #seen = new Map<string, Seen>()
  readonly #acknowledged = new Map<string, number>()
  readonly #keyOf = new Map<string, string>()
  readonly #contentOf = new Map<string, string>()
  #rev = 0

  constructor(options: { withDeletes: boolean }) {
    this.#withDeletes = options.withDeletes
  }

  put(id: string, text: string): void {
    this.#rev += 1
    this.#source.set(id, { id, rev: this.#rev, text })
    this.#texts.set(`${id} ${this.#rev}`, text)
  }

  remove(id: string): void {
    if (!this.#source.delete(id)) return
    this.#rev += 1
    this.#removals.set(id, [...(this.#removals.get(id) ?? []), this.#rev])
  }

  /** What a read of the source gives now. */
  items(since = 0): SourceItem[] {
    return [...this.#source.values()].filter(({ rev }) => rev >= since)
  }

  /** A request has reached the target. */
  arrived(arrival: Arrival): void {
    this.counts.arrivals += 1
    this.#judgeKey(arrival)
    if (arrival.kind === 'delete') this.#judgeDelete(arrival.pk)
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

  /** In what source and target differ; nothing once the flow has come to rest. */
  differences(): string[] {
    const found: string[] = []
    for (const { id, rev } of this.#source.values()) {
      const there = this.#target.get(id)
      if (there !== rev) {
        found.push(`${id}: the source has revision ${rev}, the target ${there ?? 'nothing'}`)
      } else if (this.#acknowledged.get(id) !== rev) {
        found.push(`${id}: revision ${rev} was never acknowledged`)
      }
    }
    if (!this.#withDeletes) return found
    for (const id of this.#target.keys()) {
      if (!this.#source.has(id)) found.push(`${id}: removed from the source, still at the target`)
    }
    return found
  }

  #judgeKey({ pk, kind, body, key }: Arrival): void {
    const content = JSON.stringify([pk, kind, body])
    const before = this.#keyOf.get(content)
    if (key === '') this.#violated(`${pk}: a request without a key`)
    if (before !== undefined) {
      this.counts.resent += 1
      // Deletes look alike, also those of later removals.
      const isFree = this.maySendOnceMore || kind === 'delete'
      if (before !== key && !isFree) {
        this.#violated(`${pk}: the same content under another key: ${content}`)
      }
    }
    const other = this.#contentOf.get(key)
    if (other !== undefined && other !== content) {
      this.#violated(`${pk}: one key for ${other} and for ${content}`)
    }
    this.#keyOf.set(content, key)
    this.#contentOf.set(key, content)
  }

  #judgeUpsert(pk: string, body: SourceItem | undefined): void {
    if (!body || body.id !== pk || this.#texts.get(`${pk} ${body.rev}`) !== body.text) {
      this.#violated(`${pk}: the source never had ${JSON.stringify(body)}`)
      return
    }
    const seen = this.#seen.get(pk)
    if (seen && body.rev < seen.rev) {
      const what = seen.removed ? 'the removal at' : 'revision'
      this.#violated(`${pk}: revision ${body.rev} came after ${what} ${seen.rev}`)
      return
    }
    this.#seen.set(pk, { rev: body.rev, removed: false })
  }

  #judgeDelete(pk: string): void {
    const seen = this.#seen.get(pk)
    // The same delete again, or one for a later removal: they look alike.
    if (seen?.removed) return
    const rev = this.#removals.get(pk)?.find((removal) => removal > (seen?.rev ?? 0))
    if (rev === undefined || !this.#withDeletes) {
      this.#violated(`${pk}: deleted although the source kept it since ${seen?.rev ?? 'ever'}`)
      return
    }
    this.#seen.set(pk, { rev, removed: true })
  }

  #violated(what: string): void {
    this.violations.push(what)
  }
}
