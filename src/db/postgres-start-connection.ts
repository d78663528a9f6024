import { Client, type ClientConfig } from 'pg'
import { DatabaseUnavailableError } from './database-failures.ts'

/** The time limit of queries before the service uses the server. */
export const startWithinMs = 3_000

/**
 * A connection of its own for a query at the start; close it with `endStartConnection`.
 *
 * @throws DatabaseUnavailableError.
 */
export async function openStartConnection(config: ClientConfig): Promise<Client> {
  const client = new Client({ ...config, query_timeout: startWithinMs })
  client.on('error', () => {})
  try {
    await client.connect()
    return client
  } catch (cause) {
    throw new DatabaseUnavailableError('No connection to the database', { cause })
  }
}

export function endStartConnection(client: Client): void {
  client.end().catch(() => {})
}
