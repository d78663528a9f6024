import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import pg from 'pg'
import { migrate } from '../src/db/migrate.ts'
import { openDatabase } from '../src/db/open-database.ts'
import { recordChanges } from '../src/repositories/flows/deliveries.ts'
import { deliveriesChannel } from '../src/repositories/flows/flow-events.ts'
import { jsonFlow, startTarget, startTestFlows } from '../test/support/flows.ts'
import { deliver, orderRow, refund } from '../test/support/money.ts'
import { startTestService, type TestService } from '../test/support/service.ts'
import { act, charge, openShop, payByCard, readOrder, type Till } from '../test/support/till.ts'
import { type Counted, countPassed, type Passed } from './paths.ts'

const times = 40
/** Before anything is counted: what is opened, asked for or compiled once. */
const warmUps = 3

/** What one charge, read, refund and webhook pass through, or only the named one, in the real service on the embedded database. */
export async function countOperations(named?: string): Promise<[name: string, passed: Passed][]> {
  const database = await openDatabase({ inMemory: true })
  try {
    await migrate(database)
    const service = await startTestService({ database })
    try {
      const till = await openShop(service, 'counted', '7600001')
      const passed: [string, Passed][] = []
      for (const [name, operation] of Object.entries(operationsOf(service, till))) {
        if (named !== undefined && name !== named) continue
        passed.push([name, await countPassed({ warmUps, times }, operation)])
      }
      return passed
    } finally {
      await service.stop()
    }
  } finally {
    await database.close()
  }
}

/** What a poll passes through that finds one changed item in a table of this PostgreSQL server. Nothing of its delivery counts. */
export async function countPoll(server: string): Promise<Passed> {
  const source = new pg.Client({ connectionString: server })
  await source.connect()
  const table = `counted_articles_${process.pid}`
  await source.query(`create table ${table} (id text primary key, price int)`)
  await source.query(`insert into ${table} select n, 1 from generate_series(1, 20) n`)
  const database = await openDatabase({ inMemory: true })
  try {
    await migrate(database)
    const flow = {
      ...{ version: 1, name: 'counted', pollInterval: '1h', startPaused: true },
      allowPrivateNetwork: true,
      source: {
        ...{ type: 'sql', driver: 'postgres', url: '${' + 'env:COUNTED_URL}' },
        query: `select id, price from ${table}`,
      },
      item: { key: 'id' },
      // After the first delivery nothing more is sent.
      destinations: [
        {
          ...{ name: 'out', type: 'file', path: '${' + 'env:DIR}/out.ndjson', format: 'ndjson' },
          rateLimit: { max: 1, per: '1h' },
        },
      ],
    }
    const files = { 'counted.flow.yaml': flow }
    const flows = await startTestFlows({ database, files, env: { COUNTED_URL: server } })
    const poll = async (changes: number) => {
      const found = await flows.flows.sync('counted', { force: true })
      if (found.changes !== changes) throw new Error(`a poll found ${found.changes} changes`)
    }
    try {
      await poll(20)
      return await countPassed(
        { warmUps, times },
        {
          before: async () =>
            void (await source.query(`update ${table} set price = price + 1 where id = '7'`)),
          operation: () => poll(1),
          settle: async () => undefined,
          // The worker that is woken belongs to the delivery.
          leavesOut: 'flows/deliver/',
        },
      )
    } finally {
      await flows.stop()
    }
  } finally {
    await database.close()
    await source.query(`drop table ${table}`)
    await source.end()
  }
}

/** What the delivery of one changed item passes through, by an HTTP request of its own. Nothing of the poll that finds it counts. */
export async function countDelivery(): Promise<Passed> {
  const database = await openDatabase({ inMemory: true })
  await migrate(database)
  const target = await startTarget()
  const flow = jsonFlow('counted', target.url, { startPaused: true })
  const files = { 'counted.flow.yaml': flow, 'counted.json': [] }
  const flows = await startTestFlows({ database, files })
  const queueOf = { flow: 'counted', destinations: ['web'], keepsHistory: false }
  let change = 0
  const deliverOne = async () => {
    change += 1
    const value = { id: 'A', price: change }
    const found = { pk: 'A', kind: 'upsert' as const, hash: `h${change}`, value, change }
    await database.transaction((trx) => recordChanges(trx, queueOf, [found], new Date()))
    database.announce(deliveriesChannel, 'counted/web')
    for (let isPending = true; isPending; await wait(2)) {
      const { rows } = await sql`select from deliveries where state = 'waiting'`.execute(
        database.db,
      )
      isPending = rows.length > 0
    }
  }
  try {
    return await countPassed(
      { warmUps, times },
      { operation: deliverOne, settle: async () => undefined },
    )
  } finally {
    await flows.stop()
    await target.close()
    await database.close()
  }
}

/** One after the other on one box, each with an order of its own. */
function operationsOf(service: TestService, till: Till): Record<string, Counted> {
  let orderId = ''
  let mpOrderId = ''

  const sell = async () => {
    const answer = await charge(service, till, { reference: randomUUID() })
    expectStatus(answer, 201)
    orderId = answer.json().order_id
  }
  const pay = () => act(service, orderId, payByCard)
  const read = async () => expectStatus(await readOrder(service, till, orderId), 200)
  /** What is gathered and written a moment later counts for the operation that has brought it. */
  const settle = async () => {
    await service.inbox.idle()
    await service.deps.calls.flush()
    await service.deps.statusChecks.flush()
  }

  return {
    charge: {
      operation: sell,
      settle,
      after: async () => {
        await pay()
        await read()
      },
    },
    read: {
      // Of an order that the till has read before and that was not paid meanwhile.
      before: async () => {
        await sell()
        await read()
      },
      operation: read,
      settle,
      after: async () => {
        await pay()
        await read()
      },
    },
    refund: {
      before: async () => {
        await sell()
        await pay()
        await read()
      },
      operation: async () => expectStatus(await refund(service, till, orderId), 200),
      settle,
    },
    webhook: {
      // Of a payment that was not read yet.
      before: async () => {
        await sell()
        await pay()
        mpOrderId = String((await orderRow(service, orderId)).mp_order_id)
      },
      operation: async () => expectStatus(await deliver(service, { dataId: mpOrderId }), 200),
      settle,
    },
  }
}

function expectStatus(answer: { statusCode: number; body: string }, status: number): void {
  if (answer.statusCode !== status) throw new Error(`answered ${answer.statusCode} ${answer.body}`)
}
