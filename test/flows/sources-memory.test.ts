import { createWriteStream } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Source } from '../../src/flows/types.ts'
import { dbfFile } from './dbf-file.ts'
import { reachable, sqlSource } from './sources-sql-support.ts'
import { flowOf, openTestSource, sendJson, testServer } from './sources-support.ts'
import { workbook } from './zip-file.ts'

/** Records of each source. At 100 bytes with an object for each, keeping all would need 40 MB. */
const total = 100_000
const filler = 'x'.repeat(80)
/** Each needs one second; a busy machine needs several times as long. */
const patient = { tags: ['night'] }
const megabyte = 1024 * 1024

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
setFlagsFromString('--no-expose-gc')

/** Reads all records and returns their number and the growth of the heap in megabytes. */
async function readMeasured(source: Source): Promise<{ rows: number; grownMb: number }> {
  let rows = 0
  let base = 0
  let most = 0
  const measure = () => {
    collect()
    const used = process.memoryUsage()
    const now = used.heapUsed + used.external
    if (base === 0) base = now
    most = Math.max(most, now)
  }
  const { signal } = new AbortController()
  let next = 20_000
  for await (const batch of source.scan({ since: null, signal })) {
    rows += batch.length
    if (rows < next) continue
    next += 60_000
    measure()
  }
  await source.close()
  return { rows, grownMb: (most - base) / megabyte }
}

async function expectFlat(source: Source): Promise<void> {
  const { rows, grownMb } = await readMeasured(source)
  expect(rows).toBe(total)
  expect(grownMb).toBeLessThan(15)
}

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sources-memory-'))
})
afterAll(() => rm(folder, { recursive: true }))

test.each(['csv', 'ndjson'])(
  `a file of 100,000 records in %s is read in flat memory`,
  patient,
  async (format) => {
    const path = join(folder, `a.${format}`)
    const line =
      format === 'csv'
        ? (id: number) => `${id},${filler}\n`
        : (id: number) => `{"id":${id},"t":"${filler}"}\n`
    function* text() {
      if (format === 'csv') yield 'id,t\n'
      for (let from = 0; from < total; from += 1_000) {
        yield Array.from({ length: 1_000 }, (_, index) => line(from + index)).join('')
      }
    }
    await pipeline(Readable.from(text()), createWriteStream(path))
    await expectFlat(openTestSource(flowOf({ type: 'file', path, format, settle: '0s' })).source)
  },
)

test.each(['fixed', 'dbf', 'xlsx'] as const)(
  `a file of 100,000 records in %s is read in flat memory`,
  patient,
  async (format) => {
    const path = join(folder, `b.${format}`)
    const id = (index: number) => String(index).padStart(10)
    const numbers = Array.from({ length: total }, (_, index) => index)
    const columns = [
      { name: 'id', start: 1, length: 10 },
      { name: 't', start: 11, length: 80 },
    ]
    const bytes = {
      fixed: () => numbers.map((index) => `${id(index)}${filler}\n`).join(''),
      dbf: () =>
        dbfFile(
          columns.map(({ name, length }) => ({ name, length, type: 'C' })),
          numbers.map((index) => [' ', id(index), filler]),
        ),
      xlsx: () =>
        workbook(
          `<row><c t="str"><v>id</v></c><c t="str"><v>t</v></c></row>${numbers
            .map((index) => `<row><c><v>${index}</v></c><c t="str"><v>${filler}</v></c></row>`)
            .join('')}`,
        ),
    }
    await writeFile(path, bytes[format]())
    const form = format === 'fixed' ? { fixed: { columns } } : {}
    await expectFlat(
      openTestSource(flowOf({ type: 'file', path, format, settle: '0s', ...form })).source,
    )
  },
)

test(`an API with 100,000 records is read in flat memory`, patient, async () => {
  const server = await testServer()
  const size = 5_000
  server.handle = (request, response) => {
    const from = Number(new URL(request.url ?? '', server.base).searchParams.get('offset'))
    const length = Math.max(0, Math.min(size, total - from))
    sendJson(
      response,
      Array.from({ length }, (_, index) => ({ id: from + index, t: filler })),
    )
  }
  const source = { type: 'http', url: server.base, paging: { type: 'offset', size } }
  await expectFlat(openTestSource(flowOf(source, { allowPrivateNetwork: true })).source)
  server.close()
})

const postgres = await reachable(
  process.env.TEST_DATABASE_URL || 'postgres://root@127.0.0.1:5432/test',
  'PostgreSQL (TEST_DATABASE_URL)',
)
const maria = await reachable('mysql://root@127.0.0.1:3306/test', 'MariaDB')

test.skipIf(!postgres)(`100,000 records of PostgreSQL are read in flat memory`, patient, () =>
  expectFlat(
    sqlSource({
      driver: 'postgres',
      url: postgres as string,
      query: `select id, '${filler}' as t from generate_series(1, ${total}) id`,
    }),
  ),
)

test.skipIf(!maria)(`100,000 records of MariaDB are read in flat memory`, patient, () =>
  expectFlat(
    sqlSource({
      driver: 'mysql',
      url: maria as string,
      query: `select seq as id, '${filler}' as t from seq_1_to_${total}`,
    }),
  ),
)
