/** How many connections to one address may be in use at a time, for reading or for writing. */
export type ConnectionRoom = {
  /**
   * Waits for a place, in the order of asking; call the result when the connection is closed or given back. Rejects with the
   * reason of the signal when that aborts first.
   */
  take(signal: AbortSignal): Promise<() => void>
  /** Somebody's own setting asks for so many at a time; fewer than there are change nothing. */
  widen(places: number): void
}

/**
 * Of each kind, for all flows of this process together: a server takes a hundred connections or so, and others need some.
 * Reads and writes have places of their own, since a read may take hours.
 */
const placesOfKind = 10

const rooms = new Map<string, ConnectionRoom>()
const defaultPorts: Readonly<Record<string, string>> = {
  postgres: '5432',
  mysql: '3306',
  mssql: '1433',
  firebird: '3050',
  sftp: '22',
}

/** The room of everybody who reads from, or writes to, a server as one user. */
export function connectionRoom(
  driver: string,
  address: string,
  kind: 'read' | 'write',
): ConnectionRoom {
  const key = JSON.stringify([kind, driver, serverOf(driver, address)])
  const room = rooms.get(key) ?? createRoom(placesOfKind)
  rooms.set(key, room)
  return room
}

/** Server and user of an address, without the password. */
function serverOf(driver: string, address: string): string {
  const url = URL.parse(address)
  // A connection string of ADO.
  if (!url?.host) return address.replace(/(?:password|pwd)\s*=[^;]*/gi, '').toLowerCase()
  const { hostname, port, username, searchParams } = url
  const socket = searchParams.get('host') ?? ''
  return `${username}@${hostname.toLowerCase()}:${port || defaultPorts[driver]} ${socket}`
}

/** Places that are given in the order of asking. */
export function createRoom(least: number): ConnectionRoom {
  let places = least
  const waiting = new Set<() => void>()
  let taken = 0

  const place = () => {
    let isLeft = false
    return () => {
      if (isLeft) return
      isLeft = true
      taken -= 1
      const [next] = waiting
      next?.()
    }
  }

  return {
    widen: (more) => {
      places = Math.max(places, more)
    },
    take: async (signal) => {
      signal.throwIfAborted()
      if (taken < places) {
        taken += 1
        return place()
      }
      const given = Promise.withResolvers<() => void>()
      const enter = () => {
        waiting.delete(enter)
        taken += 1
        given.resolve(place())
      }
      const leave = () => {
        waiting.delete(enter)
        given.reject(signal.reason)
      }
      waiting.add(enter)
      signal.addEventListener('abort', leave, { once: true })
      try {
        return await given.promise
      } finally {
        signal.removeEventListener('abort', leave)
      }
    },
  }
}
