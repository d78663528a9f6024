/** An item as the source has it. `rev` grows with every change of the whole source, removals included. */
export type SourceItem = { id: string; rev: number; text: string | number }

/** What the source of one flow had when. */
export class Truth {
  readonly #items = new Map<string, SourceItem>()
  /** Every content that the source ever had, by item and revision. */
  readonly #texts = new Map<string, string | number>()
  /** Revisions at which an item was removed, in order. */
  readonly #removals = new Map<string, number[]>()
  /** Called with each key that changes, so that it can be written where the flow reads. */
  readonly #listeners: ((id: string) => void)[] = []
  #rev = 0

  put(id: string, text: string | number): void {
    this.#rev += 1
    this.#items.set(id, { id, rev: this.#rev, text })
    this.#texts.set(`${id} ${this.#rev}`, text)
    this.#tell(id)
  }

  remove(id: string): void {
    if (!this.#items.delete(id)) return
    this.#rev += 1
    this.#removals.set(id, [...(this.#removals.get(id) ?? []), this.#rev])
    this.#tell(id)
  }

  get(id: string): SourceItem | undefined {
    return this.#items.get(id)
  }

  /** What a read of the source gives now. */
  items(since = 0): SourceItem[] {
    return [...this.#items.values()].filter(({ rev }) => rev >= since)
  }

  had({ id, rev, text }: SourceItem): boolean {
    return this.#texts.get(`${id} ${rev}`) === text
  }

  /** The first removal of an item after this revision. */
  removalAfter(id: string, rev: number): number | undefined {
    return this.#removals.get(id)?.find((removal) => removal > rev)
  }

  onChange(listener: (id: string) => void): void {
    this.#listeners.push(listener)
  }

  #tell(id: string): void {
    for (const listener of this.#listeners) listener(id)
  }
}
