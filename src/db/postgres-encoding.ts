import { type ClientConfig, escapeIdentifier } from 'pg'
import { DatabaseUnavailableError, UnfitDatabaseError } from './database-failures.ts'
import { endStartConnection, openStartConnection } from './postgres-start-connection.ts'

type Answer = { name: string; encoding: string }

/**
 * Checks that the database stores texts as UTF8. Other encodings lack characters that an ERP may send, and the server
 * compares Unicode forms only in UTF8. `createdb` uses the machine's encoding, often WIN1252.
 * @throws UnfitDatabaseError for another encoding.
 * @throws DatabaseUnavailableError without an answer.
 */
export async function checkEncoding(config: ClientConfig): Promise<void> {
  const { name, encoding } = await ask(config)
  if (encoding === 'UTF8') return
  throw new UnfitDatabaseError(
    `The database ${name} keeps texts as ${encoding}, and the service needs UTF8. Make another: create database ${escapeIdentifier(`${name}_utf8`)} encoding 'UTF8' template template0;`,
  )
}

async function ask(config: ClientConfig): Promise<Answer> {
  const client = await openStartConnection(config)
  try {
    const { rows } = await client.query<Answer>(
      `select current_database() as name, current_setting('server_encoding') as encoding`,
    )
    return rows[0] as Answer
  } catch (cause) {
    throw new DatabaseUnavailableError('No connection to the database', { cause })
  } finally {
    endStartConnection(client)
  }
}
