import { AsyncLocalStorage } from 'node:async_hooks'
import { CompiledQuery } from 'kysely'
import type { ConstructorOptions } from 'pg-boss'
import type { Database, Db, Trx } from '../src/db/database.ts'

/** How pg-boss writes what must happen together (installing its tables, creating a queue). */
const block = /^\s*BEGIN;([\s\S]*)COMMIT;\s*$/

export type BossDatabase = NonNullable<ConstructorOptions['db']> & {
  /** What pg-boss asks for during `work` happens inside the transaction, also its reads of its own settings. */
  within<T>(trx: Trx, work: () => Promise<T>): Promise<T>
}

/**
 * The service's own database as pg-boss wants one: on both engines the same connections, limits and guards as everything
 * else. Its blocks become transactions of ours: sent as they are, one that fails would leave its connection inside an
 * aborted transaction.
 */
export function bossDatabase(database: Database): BossDatabase {
  const open = new AsyncLocalStorage<Trx>()
  const run = async (db: Db, text: string, values: readonly unknown[] = []) => {
    const { rows } = await db.executeQuery(CompiledQuery.raw(text, [...values]))
    return { rows }
  }
  return {
    within: (trx, work) => open.run(trx, work),
    executeSql: async (text, values) => {
      const trx = open.getStore()
      if (trx) return await run(trx, text, values)
      const body = block.exec(text)?.[1]
      if (body === undefined) return await run(database.db, text, values)
      return await database.transaction((own) => run(own, body))
    },
  }
}
