/** An item of the source. `rev` grows with every change of the whole source, removals included. */
export type SourceItem = { id: string; rev: number; text: string | number }

/** The items of one source, now and earlier. */
export class SourceHistory {
  readonly #items = new Map<string, SourceItem>()
  /** The text of each revision, by item and revision. */
  readonly #texts = new Map<string, string | number>()
  /** The revisions of the removals of each item, in order. */
  readonly #removals = new Map<string, number[]>()
  /** Called with the key of each change, to write it where the flow reads. */
  readonly #listeners: ((id: string) => void)[] = []
  #rev = 0

  put(id: string, text: string | number): void {
    this.#rev += 1
    this.#items.set(id, { id, rev: this.#rev, text })
    this.#texts.set(`${id} ${this.#rev}`, text)
    this.#callListeners(id)
  }

  remove(id: string): void {
    if (!this.#items.delete(id)) return
    this.#rev += 1
    this.#removals.set(id, [...(this.#removals.get(id) ?? []), this.#rev])
    this.#callListeners(id)
  }

  get(id: string): SourceItem | undefined {
    return this.#items.get(id)
  }

  /** The items that a read of the source returns now. */
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

  #callListeners(id: string): void {
    for (const listener of this.#listeners) listener(id)
  }
}
