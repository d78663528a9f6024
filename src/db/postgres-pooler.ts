import { setTimeout as sleep } from 'node:timers/promises'
import { type Client, type ClientConfig, escapeIdentifier } from 'pg'
import { DatabaseUnavailableError, UnfitDatabaseError } from './database-failures.ts'
import {
  endStartConnection,
  openStartConnection,
  startWithinMs,
} from './postgres-start-connection.ts'

/**
 * What is between the service and the server. `none`: nothing. `session`: a pooler with a session per connection.
 * `transaction`: a pooler with a session per transaction, so no state may stay in it.
 */
export type Pooling = 'none' | 'session' | 'transaction'

/** The pooler, or the role behind it, does not fit. */
export class PoolerError extends UnfitDatabaseError {
  override readonly name = 'PoolerError'
}

const rounds = 5

/**
 * Detects a pooler by queries. A pooler returns its own number for the session. In transaction mode two connections
 * share a session, or one has two, while a transaction occupies another. Without a result in time it assumes
 * transaction mode, which is safe.
 * @throws DatabaseUnavailableError.
 */
export async function findPooling(config: ClientConfig): Promise<Pooling> {
  const first = await openStartConnection(config)
  try {
    const pid = await pidOf(first)
    // Absent from the published types.
    if ((first as unknown as { processID: number }).processID === pid) return 'none'
    return (await sharesSessions(first, pid, config)) ? 'transaction' : 'session'
  } catch (cause) {
    if (cause instanceof DatabaseUnavailableError) throw cause
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
        if ((await pidOf(other)) === pid || (await pidOf(first)) !== pid) return true
        await other.query('rollback')
      }
      return false
    }
    return await Promise.race([shares(), sleep(startWithinMs, true, { ref: false })])
  } finally {
    endStartConnection(other)
  }
}

/** The forms that the parsers of type-parsers.ts read, and the zone of a day. */
const forms = [
  { name: 'TimeZone', value: 'UTC', fits: /^((Etc\/)?(UTC|UCT|Universal|Zulu|GMT)|GMT0)$/i },
  { name: 'DateStyle', value: 'ISO', fits: /^ISO\b/ },
  { name: 'IntervalStyle', value: 'postgres', fits: /^postgres$/ },
  { name: 'bytea_output', value: 'hex', fits: /^hex$/ },
]

/**
 * Behind a pooler the role's settings apply. Returns whether they limit the time of a statement.
 *
 * @throws PoolerError, with the statements that correct them, when values would be misread by them.
 */
export async function checkRole(
  config: ClientConfig,
): Promise<{ role: string; isLimited: boolean }> {
  const client = await openStartConnection(config)
  try {
    const { rows } = await client.query<{ role: string; timeout: string; settings: string[] }>(
      `select current_user as role, current_setting('statement_timeout') as timeout,
         array(select current_setting(name) from unnest($1::text[]) with ordinality as wanted (name, place) order by place)
         as settings`,
      [forms.map(({ name }) => name)],
    )
    const { role, timeout, settings } = rows[0] as (typeof rows)[number]
    const wrong = forms.filter(({ fits }, index) => !fits.test(settings[index] ?? ''))
    if (wrong.length > 0) {
      const cures = wrong.map(
        ({ name, value }) => `alter role ${escapeIdentifier(role)} set ${name} = '${value}';`,
      )
      throw new PoolerError(
        `The database is behind a pooler in transaction mode, where the settings of the role hold. Run this, and restart the connections of the pooler: ${cures.join(' ')}`,
      )
    }
    return { role, isLimited: timeout !== '0' }
  } finally {
    endStartConnection(client)
  }
}

/** Whether a notification through the pooler arrives at the direct address. Never rejects. */
export async function receivesNotifications(
  direct: ClientConfig,
  pooled: ClientConfig,
): Promise<boolean> {
  const clients: Client[] = []
  const channel = `tillbridge_probe_${process.pid}_${Date.now()}`
  try {
    const listener = await openStartConnection(direct)
    clients.push(listener)
    const received = new Promise<boolean>((resolve) =>
      listener.once('notification', () => resolve(true)),
    )
    await listener.query(`listen ${channel}`)
    const notifier = await openStartConnection(pooled)
    clients.push(notifier)
    await notifier.query(`notify ${channel}`)
    return await Promise.race([received, sleep(startWithinMs, false, { ref: false })])
  } catch {
    return false
  } finally {
    for (const client of clients) endStartConnection(client)
  }
}

async function pidOf(client: Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  return rows[0]?.pid as number
}
