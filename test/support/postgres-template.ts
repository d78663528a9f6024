import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { migrate } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import { codeOf } from '../../src/domain/error-code.ts'

const PREFIX = 'tillbridge_test_'
const RUN_BYTES = 4
const OBJECT_IN_USE = '55006'

/** The name of the migrated database of this run, and what removes it and everything cloned from it. */
export type PostgresTemplate = { name: string; remove: () => Promise<void> }

/** Runs `work` on a connection to the server's own test database. */
export async function onServer<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

export function urlOf(serverUrl: string, name: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}

/** For those who read figures: a line when the server does not vacuum. It is not switched on, since others may use the server. */
export async function noteAutovacuum(url: string): Promise<string | undefined> {
  const { rows } = await onServer(url, (client) => client.query('show autovacuum'))
  if (rows[0].autovacuum === 'on') return undefined
  return 'autovacuum is off on this server: figures of long runs are of tables that are never vacuumed or analyzed'
}

/**
 * Makes the template of a run, `tillbridge_test_<run>`. While the run lives it keeps a connection of that name, so the
 * next run knows which databases a crashed one left behind and drops those.
 */
export async function createPostgresTemplate(url: string): Promise<PostgresTemplate> {
  const name = PREFIX + randomBytes(RUN_BYTES).toString('hex')
  const keeper = new Client({ connectionString: url, application_name: name })
  // A lost server shows in the tests.
  keeper.on('error', () => {})
  await keeper.connect()
  await dropLeftovers(keeper)
  await keeper.query(`create database ${name}`)
  const database = await openDatabase({ databaseUrl: urlOf(url, name) })
  await migrate(database)
  await database.close()
  return {
    name,
    remove: async () => {
      await keeper.end()
      await onServer(url, (client) => dropRun(client, name))
    },
  }
}

/** An empty migrated database of its own (0.06 s); `name` ends up dropped with the run if not before. */
export async function cloneTemplate(url: string, template: string): Promise<string> {
  const name = `${template}_${randomBytes(4).toString('hex')}`
  await onServer(url, async (client) => {
    for (let attempt = 1; ; attempt++) {
      try {
        await client.query(`create database ${name} template ${template}`)
        return
      } catch (error) {
        // The connection of the one who migrated, or autovacuum, may take a moment to leave.
        if (codeOf(error) !== OBJECT_IN_USE || attempt === 20) throw error
        await sleep(50)
      }
    }
  })
  return name
}

export async function dropDatabase(url: string, name: string): Promise<void> {
  await onServer(url, async (client) => {
    await client.query(`drop database if exists ${name} with (force)`)
  })
}

async function dropLeftovers(client: Client): Promise<void> {
  const names = await testDatabases(client, PREFIX)
  const runs = new Set(names.map((name) => name.slice(0, PREFIX.length + 2 * RUN_BYTES)))
  const { rows } = await client.query<{ application_name: string }>(
    'select application_name from pg_stat_activity where application_name is not null',
  )
  const alive = new Set(rows.map(({ application_name }) => application_name))
  for (const run of runs) {
    // Another run may be clearing up too.
    if (!alive.has(run)) await dropRun(client, run).catch(() => {})
  }
}

async function dropRun(client: Client, run: string): Promise<void> {
  for (const name of await testDatabases(client, run)) {
    await client.query(`drop database if exists ${name} with (force)`)
  }
}

async function testDatabases(client: Client, prefix: string): Promise<string[]> {
  const { rows } = await client.query<{ datname: string }>(
    'select datname from pg_database where starts_with(datname, $1)',
    [prefix],
  )
  return rows.map(({ datname }) => datname)
}
