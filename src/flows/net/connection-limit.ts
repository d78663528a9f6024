import { createSemaphore, type Semaphore } from '../../domain/semaphore.ts'

/**
 * Limit per kind, shared by all flows of this process: a server allows about a hundred connections, and other programs need
 * some. Reads and writes have separate limits, because a read may take hours.
 */
const limitPerKind = 10

const limits = new Map<string, Semaphore>()
/** By kind of server. */
export const defaultPorts: Readonly<Record<string, string>> = {
  postgres: '5432',
  mysql: '3306',
  mssql: '1433',
  firebird: '3050',
  sftp: '22',
}

/** The shared limit of connections in use for reads from, or writes to, a server as one user. */
export function connectionLimit(
  driver: string,
  address: string,
  kind: 'read' | 'write',
): Semaphore {
  const key = JSON.stringify([kind, driver, serverOf(driver, address)])
  const limit = limits.get(key) ?? createSemaphore(limitPerKind)
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
