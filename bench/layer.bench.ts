import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { Pool } from 'pg'
import { type Database, openDatabase } from '../src/db/database.ts'
import { migrate } from '../src/db/migrate.ts'
import { fixedStatement } from '../src/db/statements.ts'
import { onServer, urlOf } from '../test/support/postgres-template.ts'
import { quantile, say } from './bench-service.ts'
import { wholeOptions } from './whole-options.ts'

// What does a round trip to PostgreSQL cost this process beyond what the driver alone takes? The same statements by way of
// our database layer and by pg's pool with prepared statements, one after the other, in turns of one run. Measured is the
// processor time of the process, which a busy machine does not stretch. Run: npm run bench -- layer [--rounds n]

const { rounds } = wholeOptions({ rounds: 30 })
const perRound = 300

const text = 'select * from "api_keys" where "key_hash" = $1 and "active" = $2'
const hash = 'a'.repeat(64)

const builtOnce = fixedStatement<{ hash: string }, object>(
  'select * from api_keys where key_hash = :hash and active = true',
)

/** Microseconds of processor time for each call, of one round. */
async function costOf(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage()
  for (let call = 0; call < perRound; call += 1) await work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / perRound
}

type Contender = { name: string; bare: () => Promise<unknown>; ours: () => Promise<unknown> }

function contenders({ db, transaction }: Database, pool: Pool): Contender[] {
  const prepared = () => pool.query({ name: 'key', text, values: [hash, true] })
  const built = () =>
    db.selectFrom('api_keys').selectAll().where('key_hash', '=', hash).where('active', '=', true)
  return [
    { name: 'a query of Kysely', bare: prepared, ours: () => built().execute() },
    {
      name: 'a fixed statement',
      bare: prepared,
      ours: () => builtOnce(db, { hash }),
    },
    {
      name: 'a text of sql``',
      bare: prepared,
      ours: () =>
        sql`select * from "api_keys" where "key_hash" = ${hash} and "active" = ${true}`.execute(db),
    },
    {
      name: 'a transaction of two queries',
      bare: async () => {
        const client = await pool.connect()
        try {
          await client.query('begin')
          await client.query({ name: 'key', text, values: [hash, true] })
          await client.query({ name: 'key', text, values: [hash, true] })
          await client.query('commit')
        } finally {
          client.release()
        }
      },
      ours: () =>
        transaction(async (trx) => {
          const query = () => trx.selectFrom('api_keys').selectAll().where('key_hash', '=', hash)
          await query().where('active', '=', true).execute()
          await query().where('active', '=', true).execute()
        }),
    },
  ]
}

async function compare(database: Database, pool: Pool): Promise<void> {
  say(`a round trip on PostgreSQL, processor time of the process, median of ${rounds} rounds`)
  for (const { name, bare, ours } of contenders(database, pool)) {
    await costOf(bare)
    await costOf(ours)
    const costs: { bare: number; ours: number }[] = []
    for (let round = 0; round < rounds; round += 1) {
      costs.push({ bare: await costOf(bare), ours: await costOf(ours) })
    }
    const median = (of: (cost: { bare: number; ours: number }) => number) =>
      quantile(costs.map(of), 0.5)
    say(
      `  ${name}: ours ${median(({ ours: own }) => own).toFixed(0)} us, pg alone ${median(({ bare: own }) => own).toFixed(0)} us, ` +
        `ratio ${median((cost) => cost.ours / cost.bare).toFixed(2)}`,
    )
  }
}

const server = process.env.TEST_DATABASE_URL || process.env.DATABASE_URL
if (server) {
  const name = `tillbridge_bench_${randomBytes(4).toString('hex')}`
  const url = urlOf(server, name)
  await onServer(server, (client) => client.query(`create database ${name}`))
  const database = await openDatabase({ databaseUrl: url })
  const pool = new Pool({ connectionString: url })
  try {
    await migrate(database)
    await compare(database, pool)
  } finally {
    await pool.end()
    await database.close()
    await onServer(server, (client) => client.query(`drop database ${name} with (force)`))
  }
} else {
  say('a round trip: SKIPPED, it needs TEST_DATABASE_URL')
}
