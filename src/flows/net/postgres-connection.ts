import type { ClientConfig } from 'pg'
import { parse } from 'pg-connection-string'
import { ReasonError } from '../../texts/reason.ts'

/** What a database says of itself after connecting. Equal only for the same database of the same server. */
type DatabaseIdentity = {
  /** Server (also of a replica) and database; undefined where the user may not read it. */
  system: string | undefined
  /** Start of the server and database, which every user may read. */
  start: string | undefined
}

/** Reads the identity of the service's own database; undefined where it has no server. */
export type OwnDatabase = () => Promise<DatabaseIdentity>

/** Reads rows of one statement without values. */
type ReadRows = (text: string) => Promise<readonly unknown[]>

/**
 * Connection settings with every credential explicit. The driver would take what is missing from PG variables and password
 * files of the service, so nothing is missing: without a password an empty one is sent.
 */
export function postgresConnection(url: string): ClientConfig {
  const { host, port, user, password, database, ssl, ...given } = parse(url)
  return {
    ...(given as ClientConfig),
    host: host || 'localhost',
    port: Number(port || 5432),
    user: user || 'postgres',
    database: database || user || 'postgres',
    password: () => password ?? '',
    ssl: (ssl ?? false) as NonNullable<ClientConfig['ssl']>,
  }
}

const database = `(select oid::text from pg_catalog.pg_database
  where datname = pg_catalog.current_database())`

/** Servers that only support PostgreSQL's protocol, and some roles, lack a function. Then that part is undefined. */
export async function readDatabaseIdentity(read: ReadRows): Promise<DatabaseIdentity> {
  const textOf = async (server: string) => {
    try {
      const [row] = await read(`select ${server} || '/' || ${database} as identity`)
      return (row as { identity: string | null } | undefined)?.identity ?? undefined
    } catch (error) {
      if (error instanceof Error && 'severity' in error) return undefined
      throw error
    }
  }
  return {
    system: await textOf('(select system_identifier::text from pg_catalog.pg_control_system())'),
    start: await textOf('pg_catalog.pg_postmaster_start_time()::text'),
  }
}

/** The flow leads to the database of the service itself, where a query could read or plant keys and sessions. */
export class OwnDatabaseError extends ReasonError {
  override readonly name = 'OwnDatabaseError'

  constructor() {
    super({ code: 'OWN_DATABASE' })
  }
}

/** @throws OwnDatabaseError when both are the same database. */
export async function refuseOwnDatabase(
  read: ReadRows,
  ownDatabase: OwnDatabase | undefined,
): Promise<void> {
  if (!ownDatabase) return
  const [own, other] = await Promise.all([ownDatabase(), readDatabaseIdentity(read)])
  const isSame = (['system', 'start'] as const).some(
    (part) => own[part] !== undefined && own[part] === other[part],
  )
  if (isSame) throw new OwnDatabaseError()
}
