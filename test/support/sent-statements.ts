const code = { query: 'Q', parse: 'P', bind: 'B', execute: 'E' } as const
const headBytes = 5

/**
 * Reads what a client sends on one connection ("Message Formats" in PostgreSQL's manual), as far as it takes to know which
 * statements are run: of one that was prepared before, only its name is sent.
 */
export class SentStatements {
  readonly #texts = new Map<string, string>()
  #bound = ''
  #rest: Buffer = Buffer.alloc(0)

  /** Adds what the connection prepared before the first `read`: texts by name. */
  add(prepared: ReadonlyMap<string, string>): void {
    for (const [name, text] of prepared) this.#texts.set(name, text)
  }

  /** The texts of the statements that these bytes run. */
  read(bytes: Uint8Array): string[] {
    const run: string[] = []
    let left = Buffer.concat([this.#rest, bytes])
    while (left.length >= headBytes) {
      // The first message of a connection has no letter before its length, which is never that long.
      const letters = left[0] === 0 ? 0 : 1
      const end = letters + left.readUInt32BE(letters)
      if (left.length < end) break
      const statement =
        letters && this.#take(String.fromCharCode(left[0] ?? 0), left.subarray(headBytes, end))
      if (statement) run.push(statement)
      left = left.subarray(end)
    }
    this.#rest = left
    return run
  }

  #take(letter: string, body: Buffer): string | undefined {
    const [first = '', second = ''] = body.toString('utf8').split('\0', 2)
    if (letter === code.query) return first
    if (letter === code.parse) this.#texts.set(first, second)
    // First the name of the portal, which is unused here.
    if (letter === code.bind) this.#bound = this.#texts.get(second) ?? ''
    return letter === code.execute ? this.#bound : undefined
  }
}

/** What the transactions of one connection hold, seen from outside. */
export class SentTransactions {
  readonly #statements = new SentStatements()
  #open: string | undefined

  /**
   * All that was sent of the transaction which these bytes commit, parameters included and without double quotes; a statement
   * outside of a transaction commits itself. Undefined when nothing is committed.
   */
  read(bytes: Uint8Array): string | undefined {
    const run = this.#statements.read(bytes)
    const text = [Buffer.from(bytes).toString('latin1'), ...run].join('\n').replaceAll('"', '')
    let committed: string | undefined
    for (const statement of run) {
      if (/^(begin|start transaction)\b/i.test(statement)) {
        this.#open = ''
      } else if (/^rollback\b/i.test(statement)) {
        this.#open = undefined
      } else if (/^commit\b/i.test(statement)) {
        committed = this.#open
        this.#open = undefined
      } else if (this.#open === undefined) {
        committed = text
      }
    }
    if (this.#open !== undefined) this.#open += text
    return committed
  }
}
