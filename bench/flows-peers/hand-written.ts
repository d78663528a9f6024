import { createHash } from 'node:crypto'
import { Logger, parseCronItems, run } from 'graphile-worker'
import { Client, Pool, type QueryConfig } from 'pg'
import { Agent, request } from 'undici'

// A program written by hand for no more than this: a table of hashes, graphile-worker with its settings for many
// small jobs, and one request an item. Hashes and jobs share a transaction, and a later change replaces a job that waits. It
// has no order of two changes of one item, no history, no page, and nothing that holds back deletes of an empty source.

const { DATABASE_URL = '', SOURCE_URL = '', RECEIVER_URL = '', POLL_MS } = process.env
const pool = new Pool({ connectionString: DATABASE_URL, max: 10 })
// graphile-worker asks for both.
pool.on('error', () => undefined)
pool.on('connect', (client) => client.on('error', () => undefined))
const agent = new Agent({ connections: 8 })
const rowsAtOnce = 1_000

await pool.query('create table if not exists hashes (pk text primary key, hash text not null)')

type Send = { pk: string; body: object | null }

async function send({ pk, body }: Send): Promise<void> {
  const answer = await request(`${RECEIVER_URL}/items/${pk}`, {
    dispatcher: agent,
    method: body ? 'PUT' : 'DELETE',
    headersTimeout: 15_000,
    bodyTimeout: 15_000,
    ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  })
  await answer.body.dump()
  if (answer.statusCode >= 300) throw new Error(`answered ${answer.statusCode}`)
}

const worker = await run({
  pgPool: pool,
  noHandleSignals: true,
  parsedCronItems: parseCronItems([]),
  taskList: { send: (payload) => send(payload as Send) },
  preset: {
    worker: {
      // A line for each job would cost more than the job.
      logger: new Logger(() => () => undefined),
      concurrentJobs: 8,
      localQueue: { size: 500 },
      completeJobBatchDelay: 10,
      failJobBatchDelay: 10,
    },
  },
})
// One process: what is locked belongs to one that was killed.
await pool.query(
  `select graphile_worker.force_unlock_workers(array(
    select distinct locked_by from graphile_worker.jobs where locked_by is not null))`,
)

const addJobs = `select count(*) from graphile_worker.add_jobs(array(
  select ('send', one, null, null, null, one->>'pk', null, null)::graphile_worker.job_spec
  from jsonb_array_elements($1::jsonb) as one))`

async function write(sends: Send[], first: QueryConfig): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    await client.query(first)
    await client.query({ name: 'add', text: addJobs, values: [JSON.stringify(sends)] })
    await client.query('commit')
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}

async function poll(): Promise<void> {
  const source = new Client({ connectionString: SOURCE_URL })
  await source.connect()
  const seen = new Set<string>()
  await source.query('begin read only')
  await source.query(
    'declare rows no scroll cursor for select id, name, price, stock from erp.items',
  )
  for (;;) {
    const { rows } = await source.query(`fetch ${rowsAtOnce} from rows`)
    const items = rows.map((row) => {
      const body = JSON.stringify(row)
      return { pk: String(row.id), row, hash: createHash('sha256').update(body).digest('base64') }
    })
    for (const { pk } of items) seen.add(pk)
    const known = await pool.query({
      name: 'known',
      text: 'select pk, hash from hashes where pk = any($1)',
      values: [items.map(({ pk }) => pk)],
    })
    const hashes = new Map(known.rows.map(({ pk, hash }) => [pk, hash]))
    const changed = items.filter(({ pk, hash }) => hashes.get(pk) !== hash)
    if (changed.length > 0) {
      await write(
        changed.map(({ pk, row }) => ({ pk, body: row })),
        {
          name: 'store',
          text: `insert into hashes select * from unnest($1::text[], $2::text[])
            on conflict (pk) do update set hash = excluded.hash`,
          values: [changed.map(({ pk }) => pk), changed.map(({ hash }) => hash)],
        },
      )
    }
    if (rows.length < rowsAtOnce) break
  }
  await source.end()
  const { rows } = await pool.query('select pk from hashes')
  const gone = rows.map(({ pk }) => String(pk)).filter((pk) => !seen.has(pk))
  if (gone.length === 0) return
  const deletes = gone.map((pk) => ({ pk, body: null }))
  await write(deletes, { text: 'delete from hashes where pk = any($1)', values: [gone] })
}

process.on('message', (id) => {
  void poll().then(() => process.send?.({ id }))
})
process.once('disconnect', () => process.exit())
process.send?.({})

async function pollAgain(): Promise<void> {
  await poll().catch((error: unknown) => process.stderr.write(`${error}\n`))
  setTimeout(() => void pollAgain(), Number(POLL_MS))
}
if (POLL_MS) void pollAgain()
void worker.promise
