import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import { Client } from 'pg'
import { loadConfig } from '../src/app/config.ts'
import { createFlowSide } from '../src/app/flow-side.ts'
import { createLogger } from '../src/http/logging.ts'
import { urlOf } from '../test/support/postgres-template.ts'
import { forSeconds, quantile, say, tillsOf, withService } from './bench-service.ts'
import { wholeOptions } from './whole-options.ts'

// What do very many flows do to the tills? Flows that each poll a table of one PostgreSQL every second and deliver what
// changes into another table there, in the process that the tills are served by. Tills charge at a steady pace, in turns
// without the flows and with them; the 99th percentile of the charges is compared. It fails when a poll or a delivery does.
// Run: npm run bench -- beside-tills [--flows 200] [--seconds 20] [--turns 3]

const { flows, seconds, turns } = wholeOptions({ flows: 200, seconds: 20, turns: 3 })
const shopCount = 8
const chargesPerSecond = 6
const rowsPerFlow = 50
const changesPerSecond = 100
const mostTimes = 2

const server = process.env.DATABASE_URL || process.env.TEST_DATABASE_URL

function definition(place: number): object {
  return {
    version: 1,
    name: `flow-${place}`,
    pollInterval: '1s',
    source: {
      type: 'sql',
      driver: 'postgres',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the flow file
      url: '${env:ERP}',
      query: `select id, name, stock from erp.items where flow = ${place}`,
    },
    item: { key: 'id' },
    destinations: [
      {
        name: 'table',
        type: 'sql',
        driver: 'postgres',
        // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the flow file
        url: '${env:ERP}',
        table: 'erp.shop',
        upsertKey: 'id',
      },
    ],
  }
}

async function prepare(erp: Client): Promise<void> {
  await erp.query(`
    create schema erp;
    create table erp.items as
      select n as id, n % ${flows} as flow, 'Yerba mate ' || n as name, 0 as stock
      from generate_series(0, ${flows * rowsPerFlow - 1}) as n;
    create index on erp.items (flow);
    create index on erp.items (id);
    create table erp.shop (id integer primary key, name text, stock integer)`)
}

if (!server) say('beside-tills.bench.ts is skipped: it needs PostgreSQL in TEST_DATABASE_URL')
else {
  await withService(
    shopCount,
    async ({ service, shops, send, at }) => {
      const { rows } = await sql<{ name: string }>`select current_database() as name`.execute(
        service.database.db,
      )
      const url = urlOf(server, rows[0]?.name ?? '')
      const erp = new Client({ connectionString: url })
      // When something else fails the database ends before this does.
      erp.on('error', () => {})
      await erp.connect()
      await prepare(erp)
      const dir = await mkdtemp(join(tmpdir(), 'tillbridge-bench-'))
      for (let place = 0; place < flows; place += 1) {
        await writeFile(join(dir, `${place}.flow.yaml`), JSON.stringify(definition(place)))
      }
      const complaints: string[] = []
      const logger = createLogger('warn', { write: (line: string) => void complaints.push(line) })
      const openFlows = async () => {
        const side = await createFlowSide({
          config: loadConfig({ PROVIDER: 'sandbox', FLOWS_DIR: dir }),
          publicUrl: 'http://127.0.0.1:8080',
          database: service.database,
          payments: service.deps,
          notifications: service.notifications,
          logger,
          env: { ERP: url },
        })
        await side.app.ready()
        await side.start()
        return async () => {
          await side.app.close()
          await side.close()
        }
      }

      const charge = tillsOf({ service, shops, send, at }, chargesPerSecond)
      const changing = { isOver: false }
      const change = async () => {
        while (!changing.isOver) {
          await erp.query(
            `update erp.items set stock = stock + 1
             where id = any(array(select (random() * ${flows * rowsPerFlow - 1})::int
               from generate_series(1, ${changesPerSecond})))`,
          )
          await wait(1_000)
        }
      }

      await charge(forSeconds(5))
      const idle: number[] = []
      const busy: number[] = []
      let polls = 0
      let mostConnections = 0
      const countPolls = async () =>
        Number((await erp.query('select sum(runs) as runs from flow_totals')).rows[0]?.runs ?? 0)
      for (let turn = 0; turn < turns; turn += 1) {
        idle.push(...(await charge(forSeconds(seconds))))
        const close = await openFlows()
        changing.isOver = false
        const changer = change()
        // The first polls bring everything.
        await wait(10_000)
        const before = await countPolls()
        busy.push(...(await charge(forSeconds(seconds))))
        polls += (await countPolls()) - before
        const open = await erp.query(
          'select count(*) as open from pg_stat_activity where datname = current_database()',
        )
        mostConnections = Math.max(mostConnections, Number(open.rows[0]?.open))
        changing.isOver = true
        await changer
        await close()
      }
      const p99 = { idle: quantile(idle, 0.99), busy: quantile(busy, 0.99) }
      const times = p99.busy / p99.idle
      say(`${flows} flows of PostgreSQL that poll every second, beside ${shopCount} tills`)
      say(`  ${(polls / (turns * seconds)).toFixed(0)} polls/s, ${mostConnections} connections`)
      for (const [name, list] of Object.entries({ idle, busy })) {
        say(
          `  ${list.length} charges, ${name}: p50 ${quantile(list, 0.5).toFixed(0)} ms, ` +
            `p99 ${quantile(list, 0.99).toFixed(0)} ms`,
        )
      }
      say(`  with the flows the 99th percentile is ${times.toFixed(2)} times what it is without`)
      say(`  warnings and errors: ${complaints.length}`)
      for (const line of complaints.slice(0, 3)) say(`    ${line.slice(0, 300)}`)
      if (complaints.length > 0 || times > mostTimes) process.exitCode = 1
      await erp.end()
      await rm(dir, { recursive: true })
    },
    { ownTime: true },
  )
}
