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

// What does a changed definition of a flow with very many items do to the tills? A flow has delivered all items of a table of
// PostgreSQL into a file. Its mapping changes: a poll compares every item, and the flow asks. Tills charge at a steady pace before,
// while the items are compared, and while the answer `keep` is carried out; in the process that compares.
// Run: npm run bench -- definition [--items 1000000]

const { items } = wholeOptions({ items: 1_000_000 })
const shopCount = 8
const chargesPerSecond = 6
const server = process.env.DATABASE_URL || process.env.TEST_DATABASE_URL

const definition = (factor: number, outDir: string) => ({
  version: 1,
  name: 'prices',
  pollInterval: '1h',
  source: {
    type: 'sql',
    driver: 'postgres',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the flow file
    url: '${env:ERP}',
    query: 'select id, name, price from erp.items',
  },
  item: { key: 'id' },
  destinations: [
    {
      ...{ name: 'copy', type: 'file', path: join(outDir, 'copy.ndjson'), format: 'ndjson' },
      map: `{ "id": id, "name": name, "price": price * ${factor} }`,
    },
  ],
})

if (!server) say('definition.bench.ts is skipped: it needs PostgreSQL in TEST_DATABASE_URL')
else {
  await withService(
    shopCount,
    async (bench) => {
      const { service } = bench
      const { rows } = await sql<{ name: string }>`select current_database() as name`.execute(
        service.database.db,
      )
      const url = urlOf(server, rows[0]?.name ?? '')
      const erp = new Client({ connectionString: url })
      // When something else fails the database ends before this does.
      erp.on('error', () => {})
      await erp.connect()
      await erp.query(`
        create schema erp;
        create table erp.items as select n as id, 'Yerba mate ' || n as name, n % 1000 as price
        from generate_series(1, ${items}) as n`)
      const dir = await mkdtemp(join(tmpdir(), 'tillbridge-bench-'))
      const outDir = await mkdtemp(join(tmpdir(), 'tillbridge-bench-'))
      const define = (factor: number) =>
        writeFile(join(dir, 'prices.flow.yaml'), JSON.stringify(definition(factor, outDir)))
      await define(1)
      const side = await createFlowSide({
        config: loadConfig({ PROVIDER: 'sandbox', FLOWS_DIR: dir }),
        publicUrl: 'http://127.0.0.1:8080',
        database: service.database,
        payments: service.deps,
        notifications: service.notifications,
        logger: createLogger('error', { write: (line: string) => void say(line) }),
        env: { ERP: url },
      })
      await side.app.ready()
      await side.start()
      const ask = async (method: 'GET' | 'POST', path: string, payload?: object) =>
        (await side.app.inject({ method, url: path, ...(payload && { payload }) })).json()
      const until = async (isDone: () => Promise<boolean>) => {
        const startedAt = performance.now()
        while (!(await isDone())) await wait(250)
        return (performance.now() - startedAt) / 1_000
      }
      const charge = tillsOf(bench, chargesPerSecond)
      let peak = 0
      const sampling = setInterval(() => {
        peak = Math.max(peak, process.memoryUsage.rss())
      }, 100)
      const report = (what: string, seconds: number, took: readonly number[]) => {
        const ms = (share: number) => `${quantile(took, share).toFixed(0)} ms`
        say(
          `  ${what}: ${seconds.toFixed(0)} s, ${took.length} charges p50 ${ms(0.5)}, p99 ${ms(0.99)}, longest ${ms(1)}, memory ${Math.round(peak / 2 ** 20)} MB at most`,
        )
        peak = 0
      }
      /** Charges until it is done. */
      const beside = async (what: string, isDone: () => Promise<boolean>) => {
        let isOver = false
        const charging = charge(() => !isOver)
        const seconds = await until(isDone)
        isOver = true
        report(what, seconds, await charging)
      }
      const state = async () => (await ask('GET', '/flow/prices/question')).state
      const isDelivered = async () => {
        const { queue } = await ask('GET', '/stats')
        return queue.completed >= items
      }

      say(`a changed mapping of ${items} items of PostgreSQL, beside ${shopCount} tills`)
      await beside('first import', isDelivered)
      report('nothing else', 20, await charge(forSeconds(20)))
      await define(10)
      await ask('POST', '/flows/reload', {})
      await beside('comparison', async () => (await state()) === 'asked')
      const { number, destinations } = await ask('GET', '/flow/prices/question')
      say(`  asked: ${JSON.stringify(destinations)}`)
      let isAnswered = false
      const answering = ask('POST', '/flow/prices/question', { number, answer: 'keep' }).then(
        () => {
          isAnswered = true
        },
      )
      await beside('answer keep', async () => {
        const { queue } = await ask('GET', '/stats')
        return isAnswered && (await state()) === 'none' && queue.waiting + queue.active === 0
      })
      await answering
      clearInterval(sampling)
      await side.app.close()
      await side.close()
      await erp.end()
      for (const one of [dir, outDir]) await rm(one, { recursive: true })
    },
    { ownTime: true },
  )
}
