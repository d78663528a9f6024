import {
  AbortedTransactionError,
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type TransactionSettings,
} from 'kysely'
import type { WatchedClient } from './postgres-client.ts'
import type { ResilientPool } from './postgres-pool.ts'

type DialectOptions = {
  /** Leaves the locking of migrations to migrate.ts, which locks per transaction; Kysely's own lock is the session's. */
  withoutMigrationLock?: boolean
}

/** PostgreSQL through a resilient pool: Kysely's own dialect without its unused parts, since each query passes it. */
export function postgresDialect(pool: ResilientPool, options: DialectOptions = {}): Dialect {
  return {
    createAdapter: () =>
      options.withoutMigrationLock ? new LocklessAdapter() : new PostgresAdapter(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
    createDriver: () => postgresDriver(pool),
  }
}

class LocklessAdapter extends PostgresAdapter {
  override async acquireMigrationLock(): Promise<void> {}
  override async releaseMigrationLock(): Promise<void> {}
}

const commands = {
  begin: CompiledQuery.raw('begin'),
  commit: CompiledQuery.raw('commit'),
  rollback: CompiledQuery.raw('rollback'),
}

function postgresDriver(pool: ResilientPool): Driver {
  // Kysely passes back the same objects that acquireConnection returned.
  const own = (connection: DatabaseConnection) => connection as WatchedClient
  const run = async (connection: DatabaseConnection, command: string) => {
    await connection.executeQuery(CompiledQuery.raw(command))
  }
  return {
    init: async () => {},
    acquireConnection: () => pool.connect(),
    releaseConnection: async (connection) => own(connection).release(),
    beginTransaction: async (connection, settings) => {
      await connection.executeQuery(beginning(settings))
    },
    commitTransaction: async (connection) => {
      // After a failed statement the server ends a COMMIT as a ROLLBACK.
      if ((await own(connection).command(commands.commit)) === 'ROLLBACK') {
        throw new AbortedTransactionError()
      }
    },
    rollbackTransaction: async (connection) => {
      try {
        await connection.executeQuery(commands.rollback)
      } catch (error) {
        own(connection).spoil()
        throw error
      }
    },
    savepoint: (connection, name) => run(connection, `savepoint "${name}"`),
    rollbackToSavepoint: (connection, name) => run(connection, `rollback to "${name}"`),
    releaseSavepoint: (connection, name) => run(connection, `release "${name}"`),
    destroy: () => pool.end(),
  }
}

function beginning({ isolationLevel, accessMode }: TransactionSettings) {
  if (!isolationLevel && !accessMode) return commands.begin
  const modes = [isolationLevel && `isolation level ${isolationLevel}`, accessMode].filter(Boolean)
  return CompiledQuery.raw(['start transaction', ...modes].join(' '))
}
