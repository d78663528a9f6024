/** @module-tag night */

import { once } from 'node:events'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Worker } from 'node:worker_threads'
import { afterAll, expect, test } from 'vitest'
import type { Source } from '../../src/flows/types.ts'
import { longestTurn, promisedMs } from '../support/longest-turn.ts'
import { reachable, sqlSource } from './sources-sql-support.ts'
import type { LargeTables } from './sources-tds-large.ts'

/** Tables with a picture in each record, and tables of many columns: neither memory nor an event-loop iteration may grow with them. */
const pictures = 400
const pictureCharacters = 256 * 1024
const columns = 1_000
const wideRows = 500
const patient = { timeout: 60_000 }

const postgres = await reachable(
  process.env.TEST_DATABASE_URL || 'postgres://root@127.0.0.1:5432/test',
  'PostgreSQL (TEST_DATABASE_URL)',
)
const maria = await reachable('mysql://root@127.0.0.1:3306/test', 'MariaDB')
const tables: LargeTables = { pictures, pictureCharacters, wideRows, columns }
const mssql = new Worker(new URL('./sources-tds-large.ts', import.meta.url), { workerData: tables })
const [mssqlUrl] = (await once(mssql, 'message')) as [string]
afterAll(() => mssql.terminate())

const places = (text: (index: number) => string) =>
  Array.from({ length: columns }, (_, index) => text(index)).join(',')
const databases = [
  {
    driver: 'postgres' as const,
    url: postgres,
    long: `select id, repeat('x', ${pictureCharacters}) t from generate_series(1, ${pictures}) id`,
    wide: `select ${places((index) => `id as c${index}`)} from generate_series(1, ${wideRows}) id`,
  },
  {
    driver: 'mysql' as const,
    url: maria,
    long: `select seq id, repeat('x', ${pictureCharacters}) t from seq_1_to_${pictures}`,
    wide: `select ${places((index) => `seq as c${index}`)} from seq_1_to_${wideRows}`,
  },
  { driver: 'mssql' as const, url: mssqlUrl, long: 'from pictures', wide: 'from wide' },
]

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
setFlagsFromString('--no-expose-gc')

/** The result of a scan; `onBatch` is called while its reader is busy. */
async function read(source: Source, onBatch: () => void) {
  let rows = 0
  let longestBatch = 0
  const { signal } = new AbortController()
  for await (const batch of source.scan({ since: null, signal })) {
    rows += batch.length
    longestBatch = Math.max(longestBatch, batch.length)
    onBatch()
  }
  await source.close()
  return { rows, longestBatch }
}

const usedMb = () => {
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return (heapUsed + external) / 1_048_576
}

for (const { driver, url, long, wide } of databases) {
  test.skipIf(!url)(
    `only a few long records of ${driver} are in memory at a time`,
    patient,
    async () => {
      const source = sqlSource({ driver, url: url as string, query: long })
      const before = usedMb()
      let most = 0
      let batches = 0
      const result = await read(source, () => {
        batches += 1
        if (batches % 8 === 0) most = Math.max(most, usedMb())
      })
      expect(result.rows).toBe(pictures)
      // 1 Mi characters, where 1,000 records would be a batch.
      expect(result.longestBatch).toBeLessThanOrEqual(4)
      // Of 400 all are 100 MB, and twice as much from SQL Server.
      expect(most - before).toBeLessThan(80)
    },
  )

  test.skipIf(!url)(`wide records of ${driver} do not block the event loop`, patient, async () => {
    const { ms, said } = await longestTurn(async () => {
      const source = sqlSource({ driver, url: url as string, query: wide })
      return `${(await read(source, () => undefined)).rows} records`
    })
    expect(said).toBe(`${wideRows} records`)
    expect(ms).toBeLessThan(promisedMs)
  })
}
