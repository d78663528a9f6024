import { randomBytes } from 'node:crypto'

/** A text that comes again is likely to come for ever; one that is put together anew for each call never does. */
const usesBefore = 3
/** What each connection keeps prepared on the server: some ten kilobytes each. */
const namesAtMost = 200
const candidatesAtMost = 1_000
/** Longer ones are lists of as many rows as there are just now, or run for so long that their parsing does not matter. */
const longestText = 6_000

/**
 * Names for statements that are asked again and again, under which a connection prepares them once: neither side then parses
 * and plans them anew. Equal texts have one name on all connections; their number is bounded.
 */
export class StatementNames {
  readonly #names = new Map<string, string>()
  readonly #uses = new Map<string, number>()
  // What somebody else may have left in a session must not be taken for ours.
  #series = randomBytes(4).toString('hex')

  /** The name to prepare a text under; undefined while it is not worth one. */
  nameOf(text: string): string | undefined {
    return this.#names.get(text) ?? this.#consider(text)
  }

  /** From now on everything is prepared anew, on every connection. */
  renew(): void {
    this.#names.clear()
    this.#series = randomBytes(4).toString('hex')
  }

  #consider(text: string): string | undefined {
    if (text.length > longestText || this.#names.size >= namesAtMost) return undefined
    const uses = (this.#uses.get(text) ?? 0) + 1
    if (uses < usesBefore) {
      if (this.#uses.size >= candidatesAtMost) this.#uses.clear()
      this.#uses.set(text, uses)
      return undefined
    }
    this.#uses.delete(text)
    const name = `${this.#series}_${this.#names.size}`
    this.#names.set(text, name)
    return name
  }
}
