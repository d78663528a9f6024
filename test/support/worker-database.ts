import type { PGlite } from '@electric-sql/pglite'
import type { Database } from '../../src/db/database.ts'
import type { Engine } from '../../src/db/engine.ts'
import { build } from '../../src/db/open-database.ts'
import { openPglite, pgliteDialect } from '../../src/db/pglite-engine.ts'
import { pgliteTemplate } from './pglite-template.ts'

type Embedded = Awaited<ReturnType<typeof openPglite>>
type Kept = {
  embedded: Embedded
  schema: string
  seeds: Seed[]
  dialect: Engine['dialect']
  /** The end of the log of changes when it was last shortened. */
  shortenedAt: string
}
/** The rows, as JSON, that the migrations insert into a table. */
type Seed = { table: string; rows: string }

/** What nobody has borrowed; hardly any file wants more than two at once. */
const idle: Kept[] = []
const mostIdle = 2
/** All that are open, the lent ones too. */
const open = new Set<PGlite>()

/** The statements that are prepared in the embedded databases of this worker, by name. */
export async function listPrepared(): Promise<Map<PGlite, Map<string, string>>> {
  const prepared = new Map<PGlite, Map<string, string>>()
  for (const pglite of open) {
    const { rows } = await pglite.query<{ name: string; statement: string }>(
      'select name, statement from pg_prepared_statements',
    )
    prepared.set(pglite, new Map(rows.map(({ name, statement }) => [name, statement])))
  }
  return prepared
}

/**
 * The embedded database that this worker keeps for one file after the other, empty but for what the migrations insert, or
 * a new one while that is lent (1.2 s of processor time instead of 0.05 s, and 225 MB). Whoever closes it gives it back. One
 * of which more than rows was changed is not lent again.
 */
export async function borrowDatabase(): Promise<Database> {
  return build(lentEngine(idle.pop() ?? (await openNew())))
}

/** For a command that ends: an embedded database that is kept holds its process. */
export async function closeKeptDatabases(): Promise<void> {
  for (const kept of idle.splice(0)) await end(kept)
}

async function end({ embedded }: Kept): Promise<void> {
  open.delete(embedded.pglite)
  await embedded.stop()
  await embedded.disconnect()
}

async function openNew(): Promise<Kept> {
  const embedded = await openPglite({ log: () => {}, loadDataDir: await pgliteTemplate() })
  const { pglite } = embedded
  open.add(pglite)
  const dialect = pgliteDialect(pglite)
  return {
    embedded,
    schema: await schemaOf(pglite),
    seeds: await seedsOf(pglite),
    dialect,
    shortenedAt: await endOfLog(pglite),
  }
}

/** What one borrower listens to ends with him; the database goes on. */
function lentEngine(kept: Kept): Engine {
  const { embedded } = kept
  const unlistens = new Set<() => Promise<void>>()
  return {
    name: 'pglite',
    dialect: kept.dialect,
    listen: async (channel, hearer) => {
      const unlisten = await embedded.listen(channel, hearer)
      unlistens.add(unlisten)
      return async () => {
        if (unlistens.delete(unlisten)) await unlisten()
      }
    },
    ...(embedded.notifyLocal && { notifyLocal: embedded.notifyLocal }),
    stop: async () => {
      const all = [...unlistens]
      unlistens.clear()
      for (const unlisten of all) await unlisten()
    },
    disconnect: async () => {
      if (idle.length < mostIdle && (await isAsNew(kept))) idle.push(kept)
      else await end(kept)
    },
  }
}

/**
 * As `discard all`, without the plans: a statement that a file prepared need not be parsed and planned for the next one, which
 * is a tenth of the processor time of its requests.
 */
const discardAllButPlans = `close all; set session authorization default; reset all; unlisten *;
  select pg_advisory_unlock_all(); discard temp; discard sequences`

/** A dialect prepares 200 statements at most, and a file has up to 100 of its own. */
const mostPrepared = 100

async function discardSession(kept: Kept): Promise<void> {
  const { pglite } = kept.embedded
  await pglite.exec(discardAllButPlans)
  const { rows } = await pglite.query<{ count: number }>(
    'select count(*)::int from pg_prepared_statements',
  )
  if (Number(rows[0]?.count) <= mostPrepared) return
  await pglite.exec('discard all')
  kept.dialect = pgliteDialect(pglite)
}

/** Empties it; false when more than rows was changed. */
async function isAsNew(kept: Kept): Promise<boolean> {
  const { schema, seeds } = kept
  const { pglite } = kept.embedded
  await discardSession(kept)
  if ((await schemaOf(pglite)) !== schema) return false
  const { rows } = await pglite.query<{ table: string; is_small: boolean }>(`
    select relid::regclass::text as table, size < 80 * 1024 and reltuples < 0 as is_small
    from pg_tables, lateral (select format('%I.%I', schemaname, tablename)::regclass as relid) one,
      lateral (select pg_relation_size(relid) as size) bytes, pg_class
    where schemaname = 'public' and not starts_with(tablename, 'kysely_') and size > 0
      and pg_class.oid = relid`)
  const filled = rows.map(({ table }) => table)
  const small = rows.filter(({ is_small }) => is_small).map(({ table }) => table)
  const others = filled.filter((table) => !small.includes(table))
  const seeded = seeds.filter(({ table }) => filled.includes(table))
  await pglite.transaction(async (trx) => {
    // Append-only tables refuse otherwise.
    await trx.exec('set local session_replication_role = replica')
    // Ten times as fast as to truncate, which makes new files for a table and its indexes. Where somebody has counted the
    // rows, only a truncated table is as new for the planner.
    if (small.length > 0) await trx.exec(small.map((table) => `delete from ${table}`).join(';'))
    if (others.length > 0) await trx.exec(`truncate ${others.join(', ')} cascade`)
    for (const { table, rows: json } of seeded) {
      await trx.query(
        `insert into ${table} overriding system value
           select * from jsonb_populate_recordset(null::${table}, $1::jsonb)`,
        [json],
      )
    }
    await trx.exec('select setval(seqrelid::regclass, seqstart, false) from pg_sequence')
  })
  await shortenLog(kept)
  return true
}

/** Two files of the log. */
const longestLog = 32 * 1024 * 1024

/**
 * No other code shortens the log of changes, which is memory here. It is not shortened after each file of tests: a checkpoint
 * takes a third of the time of emptying, and after it each page is logged as a whole when it first changes.
 */
async function shortenLog(kept: Kept): Promise<void> {
  const { pglite } = kept.embedded
  const { rows } = await pglite.query<{ end: string; is_long: boolean }>(
    `select pg_current_wal_insert_lsn()::text as end,
       pg_current_wal_insert_lsn() - $1::pg_lsn > $2 as is_long`,
    [kept.shortenedAt, longestLog],
  )
  const [log] = rows
  if (!log?.is_long) return
  await pglite.exec('checkpoint')
  kept.shortenedAt = log.end
}

async function endOfLog(pglite: PGlite): Promise<string> {
  const { rows } = await pglite.query<{ end: string }>(
    'select pg_current_wal_insert_lsn()::text as end',
  )
  return String(rows[0]?.end)
}

/** The same as long as nothing but rows was changed; 5 ms, where the words of all definitions would take 70. */
export async function schemaOf(pglite: PGlite): Promise<string> {
  const { rows } = await pglite.query<{ schema: string }>(`
    with tables as (
      select oid, relname from pg_class where relnamespace = 'public'::regnamespace
    ), parts as (
      select concat_ws(' ', 'table', oid, relname) as part from tables
      union all select concat_ws(' ', 'column', attrelid, attnum, a.xmin)
        from pg_attribute a join tables on tables.oid = attrelid
      union all select concat_ws(' ', 'default', d.oid, d.xmin)
        from pg_attrdef d join tables on tables.oid = adrelid
      union all select concat_ws(' ', 'constraint', c.oid, c.xmin)
        from pg_constraint c join tables on tables.oid = conrelid
      union all select concat_ws(' ', 'trigger', t.oid, t.xmin)
        from pg_trigger t join tables on tables.oid = tgrelid
      union all select concat_ws(' ', 'index', indexrelid, i.xmin)
        from pg_index i join tables on tables.oid = indrelid
      union all select concat_ws(' ', 'function', oid, xmin)
        from pg_proc where pronamespace = 'public'::regnamespace
      union all select concat_ws(' ', 'migration', name) from kysely_migration
      union all select concat_ws(' ', 'setting', setdatabase, setrole, setconfig)
        from pg_db_role_setting
    )
    select md5(string_agg(part, ',' order by part)) as schema from parts`)
  return String(rows[0]?.schema)
}

async function seedsOf(pglite: PGlite): Promise<Seed[]> {
  const { rows: tables } = await pglite.query<{ table: string }>(`
    select format('%I.%I', schemaname, tablename)::regclass::text as table from pg_tables
    where schemaname = 'public' and not starts_with(tablename, 'kysely_')
      and pg_relation_size(format('%I.%I', schemaname, tablename)::regclass) > 0`)
  const seeds: Seed[] = []
  for (const { table } of tables) {
    const { rows } = await pglite.query<{ rows: string | null }>(
      `select jsonb_agg(to_jsonb(t))::text as rows from ${table} t`,
    )
    if (rows[0]?.rows) seeds.push({ table, rows: rows[0].rows })
  }
  return seeds
}
