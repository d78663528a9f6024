/** Whether a flow is held, as far as whoever delivers it knows. */
export type Hold = {
  /** While it is, nothing starts. */
  isClosed(): boolean
  /** These rows, or none when they show that their flow is held. */
  pass<Row extends { held: boolean }>(rows: readonly Row[]): readonly Row[]
}

/** How often somebody who waits for a held flow looks whether it goes on. */
export const holdLookMs = 500

/**
 * Keeps the deliveries of a held flow back. Each row tells, as it is read, whether its flow is held; from then on the database is
 * asked now and then.
 */
export function createHold(isHeld: () => Promise<boolean>): Hold {
  let closed = false
  let lookedMs = 0
  let looking = false

  const look = async () => {
    looking = true
    try {
      closed = await isHeld()
    } catch {
      // The database is away; nothing can be delivered meanwhile either.
    } finally {
      lookedMs = performance.now()
      looking = false
    }
  }

  return {
    isClosed() {
      if (closed && !looking && performance.now() - lookedMs >= holdLookMs) void look()
      return closed
    },
    pass(rows) {
      if (!rows[0]?.held) return rows
      closed = true
      lookedMs = performance.now()
      return []
    },
  }
}
