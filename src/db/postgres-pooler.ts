import { setTimeout as sleep } from 'node:timers/promises'
import { type Client, type ClientConfig, DatabaseError } from 'pg'
import { parse } from 'pg-connection-string'
import { DatabaseUnavailableError, UnfitDatabaseError } from './database-failures.ts'
import {
  endStartConnection,
  openStartConnection,
  startWithinMs,
} from './postgres-start-connection.ts'

/** What is between the service and the server: nothing, or a pooler with a session per connection. */
type Pooling = 'none' | 'session'

/** The pooler gives a session for each transaction or statement. */
export class PoolerError extends UnfitDatabaseError {
  override readonly name = 'PoolerError'
}

const rounds = 5

/**
 * Detects a pooler by queries. A pooler returns its own number for the session. In transaction mode two connections
 * share a session, or one has two, while a transaction occupies another. Statement mode refuses a transaction.
 *
 * @throws PoolerError in these modes, with the address to use; DatabaseUnavailableError.
 */
export async function findPooling(config: ClientConfig): Promise<Pooling> {
  const first = await openStartConnection(config)
  try {
    const { pid } = await sessionOf(first)
    // Absent from the published types.
    const { processID } = first as Client & { processID: number }
    if (processID === pid) return 'none'
    if (!(await sharesSessions(first, pid, config))) return 'session'
    throw new PoolerError(
      `DATABASE_URL leads through a pooler in transaction or statement mode, where a session does not last: LISTEN, time limits and locks of a session are lost. Set DATABASE_URL to the server itself${await directAddress(first, config)}, or to a pooler in session mode`,
    )
  } catch (cause) {
    if (cause instanceof PoolerError || cause instanceof DatabaseUnavailableError) throw cause
    throw new DatabaseUnavailableError('No connection to the database', { cause })
  } finally {
    endStartConnection(first)
  }
}

async function sharesSessions(first: Client, pid: number, config: ClientConfig): Promise<boolean> {
  const other = await openStartConnection(config)
  try {
    const shares = async () => {
      for (let round = 1; round <= rounds; round += 1) {
        await other.query('begin')
        if ((await sessionOf(other)).pid === pid || (await sessionOf(first)).pid !== pid)
          return true
        await other.query('rollback')
      }
      return false
    }
    const late = sleep(startWithinMs, undefined, { ref: false }).then(() => {
      throw new DatabaseUnavailableError('The database did not answer a second connection in time')
    })
    return await Promise.race([shares(), late])
  } catch (error) {
    if (error instanceof DatabaseError) return true
    throw error
  } finally {
    endStartConnection(other)
  }
}

/** As the server sees itself; '' where it answers on a socket of its machine. */
async function directAddress(client: Client, { connectionString }: ClientConfig): Promise<string> {
  const { host, port } = await sessionOf(client)
  if (host === null) return ''
  const { user, database } = parse(connectionString ?? '')
  const at = host.includes(':') ? `[${host}]` : host
  return ` (postgres://${user ?? ''}@${at}:${port}/${database ?? ''}, as the server sees its address)`
}

type Session = { pid: number; host: string | null; port: number | null }

async function sessionOf(client: Client): Promise<Session> {
  const { rows } = await client.query<Session>(
    'select pg_backend_pid() as pid, host(inet_server_addr()) as host, inet_server_port() as port',
  )
  return rows[0] as Session
}
