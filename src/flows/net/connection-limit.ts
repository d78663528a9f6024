/** Limits the connections to one address that are in use at a time, for reading or for writing. */
export type ConnectionLimit = {
  /**
   * Waits for a connection slot: the lowest `rank` first, equal ones in order of request. Call the result when the connection is
   * closed or returned. Rejects with the signal's reason when it aborts first.
   */
  acquire(signal: AbortSignal, rank?: number): Promise<() => void>
  /** Raises the limit to a flow's own setting. A lower value changes nothing. */
  raise(slots: number): void
}

/**
 * Limit per kind, shared by all flows of this process: a server allows about a hundred connections, and other programs need
 * some. Reads and writes have separate limits, because a read may take hours.
 */
const limitPerKind = 10

const limits = new Map<string, ConnectionLimit>()
/** By kind of server. */
export const defaultPorts: Readonly<Record<string, string>> = {
  postgres: '5432',
  mysql: '3306',
  mssql: '1433',
  firebird: '3050',
  sftp: '22',
}

/** The shared limit for reads from, or writes to, a server as one user. */
export function connectionLimit(
  driver: string,
  address: string,
  kind: 'read' | 'write',
): ConnectionLimit {
  const key = JSON.stringify([kind, driver, serverOf(driver, address)])
  const limit = limits.get(key) ?? createLimit(limitPerKind)
  limits.set(key, limit)
  return limit
}

/** Server and user of an address, without the password. */
function serverOf(driver: string, address: string): string {
  const url = URL.parse(address)
  // An ADO connection string.
  if (!url?.host) return address.replace(/(?:password|pwd)\s*=[^;]*/gi, '').toLowerCase()
  const { hostname, port, username, searchParams } = url
  const socket = searchParams.get('host') ?? ''
  return `${username}@${hostname.toLowerCase()}:${port || defaultPorts[driver]} ${socket}`
}

/** A semaphore that serves waiting callers by rank. */
export function createLimit(initial: number): ConnectionLimit {
  let slots = initial
  const waiting = new Map<() => void, number>()
  let used = 0

  const startNext = () => {
    let next: (() => void) | undefined
    let lowest = Number.POSITIVE_INFINITY
    for (const [start, rank] of waiting) {
      if (next && rank >= lowest) continue
      next = start
      lowest = rank
    }
    next?.()
  }

  const createRelease = () => {
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      used -= 1
      startNext()
    }
  }

  return {
    raise: (more) => {
      slots = Math.max(slots, more)
    },
    acquire: async (signal, rank = 0) => {
      signal.throwIfAborted()
      if (used < slots) {
        used += 1
        return createRelease()
      }
      const given = Promise.withResolvers<() => void>()
      const start = () => {
        waiting.delete(start)
        used += 1
        given.resolve(createRelease())
      }
      const abort = () => {
        waiting.delete(start)
        given.reject(signal.reason)
      }
      waiting.set(start, rank)
      signal.addEventListener('abort', abort, { once: true })
      try {
        return await given.promise
      } finally {
        signal.removeEventListener('abort', abort)
      }
    },
  }
}
