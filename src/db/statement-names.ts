import { randomBytes } from 'node:crypto'

/** A text that repeats this often is constant; one that is composed for each call never repeats. */
const usesBefore = 3
/** What each connection keeps prepared on the server: some ten kilobytes each. */
const namesAtMost = 200
const candidatesAtMost = 1_000
/** Longer texts are lists with a varying number of rows, or run so long that parsing does not matter. */
const longestText = 6_000

/**
 * Names for repeated statements, under which a connection prepares them once instead of parsing and planning each
 * time. Equal texts have one name on all connections; their number is limited.
 */
export class StatementNames {
  readonly #names = new Map<string, string>()
  readonly #uses = new Map<string, number>()
  // A statement that another program left in a session must not match.
  #series = randomBytes(4).toString('hex')

  /** The name to prepare a text under; undefined while it is not worth one. */
  nameOf(text: string): string | undefined {
    return this.#names.get(text) ?? this.#consider(text)
  }

  /** From now on everything is prepared again, on every connection. */
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
