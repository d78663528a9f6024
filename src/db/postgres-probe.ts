import { Client, type ClientConfig } from 'pg'
import { DatabaseUnavailableError } from './database-failures.ts'

/** What is asked of the server before the service works with it gets an answer in this time, or none. */
export const answerWithinMs = 3_000

/** A connection of its own for a question at the start. Throws DatabaseUnavailableError; close it with `endProbe`. */
export async function openProbe(config: ClientConfig): Promise<Client> {
  const client = new Client({ ...config, query_timeout: answerWithinMs })
  client.on('error', () => {})
  try {
    await client.connect()
    return client
  } catch (cause) {
    throw new DatabaseUnavailableError('No connection to the database', { cause })
  }
}

export function endProbe(client: Client): void {
  client.end().catch(() => {})
}
