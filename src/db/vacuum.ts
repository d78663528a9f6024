import type { PGlite } from '@electric-sql/pglite'
import type { Log } from './engine.ts'

const INTERVAL_MS = 45_000

type Bloated = { name: string }

/**
 * Cleans the tables whose dead rows outnumber a fifth of the live ones (at least 1,000): nobody else does, the embedded
 * database has no autovacuum process. Returns their names.
 */
export async function vacuumOnce(pglite: PGlite): Promise<string[]> {
  // The counters of the last queries may still wait for their turn to be published.
  await pglite.query('select pg_stat_force_next_flush()')
  const { rows } = await pglite.query<Bloated>(
    `select format('%I.%I', schemaname, relname) as name from pg_stat_user_tables
     where n_dead_tup > 1000 + 0.2 * n_live_tup`,
  )
  for (const { name } of rows) await pglite.exec(`vacuum (analyze) ${name}`)
  return rows.map(({ name }) => name)
}

/** Repeats vacuumOnce while the process lives; the returned function ends it and waits for a run in progress. */
export function startVacuum(pglite: PGlite, log: Log): () => Promise<void> {
  let running: Promise<void> | undefined
  const timer = setInterval(() => {
    running ??= vacuumOnce(pglite)
      .then(() => {})
      .catch((error: unknown) => log('warn', { err: error }, 'vacuum of the database failed'))
      .finally(() => {
        running = undefined
      })
  }, INTERVAL_MS)
  timer.unref()
  return async () => {
    clearInterval(timer)
    await running
  }
}
