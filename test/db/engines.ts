import type { Database } from '../../src/db/database.ts'
import { needsPostgres, openEmbedded, openPostgresClone, postgresUrl } from '../support/database.ts'

type EngineUnderTest = { title: string; skip: boolean; open: () => Promise<Database> }

/** Both databases, for guarantees that must not depend on which one runs. */
export const engines: EngineUnderTest[] = [
  { title: 'pglite', skip: false, open: openEmbedded },
  {
    title: postgresUrl ? 'postgres' : `postgres (${needsPostgres})`,
    skip: !postgresUrl,
    open: async () => (await openPostgresClone(postgresUrl ?? '')).database,
  },
]
