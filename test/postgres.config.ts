import { playedOnPostgres } from './support/on-postgres.ts'
import all from './vitest.config.ts'

/** What depends on the database, whole, on the PostgreSQL server of TEST_DATABASE_URL. */
export default { ...all, test: { ...all.test, include: [...playedOnPostgres] } }
