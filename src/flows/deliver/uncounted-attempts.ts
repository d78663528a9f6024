/**
 * Attempts whose answer did not come from the API (`isForeign`), and those that only tested a destination in an outage. They
 * count only when the receiver answered another item since the one before: then it refuses this item alone, and the operators
 * must learn of it.
 */
export type UncountedAttempts = {
  /** The receiver answered. */
  answered(): void
  /** Adds one. Returns how many in a row are not counted; 0: this one counts. */
  add(pk: string): number
  /** The item has an answer of its own. */
  end(pk: string): void
}

/** They are lost at a restart, which costs at most one more attempt of an item. */
export function createUncountedAttempts(): UncountedAttempts {
  const items = new Map<string, { uncounted: number; answersBefore: number }>()
  let answers = 0
  return {
    answered: () => {
      answers += 1
    },
    add: (pk) => {
      const { uncounted, answersBefore } = items.get(pk) ?? { uncounted: 0, answersBefore: answers }
      const now = answers > answersBefore ? 0 : uncounted + 1
      items.set(pk, { uncounted: now, answersBefore: answers })
      return now
    },
    end: (pk) => {
      items.delete(pk)
    },
  }
}
