import { randomUUID } from 'node:crypto'
import { Client } from 'pg'
import { openDatabase } from '../src/db/open-database.ts'
import { deliver, orderRow } from '../test/support/money.ts'
import { cloneTemplate, createPostgresTemplate, urlOf } from '../test/support/postgres-template.ts'
import { startTestService } from '../test/support/service.ts'
import { act, charge, openShop, payByCard, readOrder } from '../test/support/till.ts'

/** What one sale (a charge, its webhook, three reads) writes to PostgreSQL, on average. */
export type SaleWrites = {
  /** Bytes of the write-ahead log. */
  walBytes: number
  inserted: number
  updated: number
  /** Updates that touched no index. */
  hot: number
  /** The same by table, where there is any. Without tables that are written by the second. */
  tables: Record<string, { inserted: number; updated: number; hot: number; deleted: number }>
}

const warmUps = 20
/** The last use of a key is written by the second, so a slow machine writes it more often in a sale. */
const writtenByTheSecond: ReadonlySet<string> = new Set(['api_keys'])

/** Plays `sales` sales in the real service, one after the other, on a database of its own at `server`. */
export async function countSaleWrites(server: string, sales = 100): Promise<SaleWrites> {
  const template = await createPostgresTemplate(server)
  try {
    const url = urlOf(server, await cloneTemplate(server, template.name))
    const database = await openDatabase({ databaseUrl: url })
    const observer = new Client({ connectionString: url })
    await observer.connect()
    const service = await startTestService({ database })
    try {
      const till = await openShop(service, 'counted', '7600001')
      const sell = async () => {
        const made = await charge(service, till, { reference: randomUUID() })
        const orderId: string = made.json().order_id
        await act(service, orderId, payByCard)
        const mpOrderId = String((await orderRow(service, orderId)).mp_order_id)
        await deliver(service, { dataId: mpOrderId })
        await service.inbox.idle()
        for (let reads = 0; reads < 3; reads += 1) await readOrder(service, till, orderId)
      }
      const settle = async () => {
        await service.inbox.idle()
        await service.deps.calls.flush()
        await service.deps.statusChecks.flush()
      }
      for (let sale = 0; sale < warmUps; sale += 1) await sell()
      await settle()
      // A page that is first changed after a checkpoint is written to the log as a whole, which depends on the checkpoints alone.
      await observer.query('checkpoint')
      for (let sale = 0; sale < warmUps; sale += 1) await sell()
      await settle()
      const before = await readCounters(observer)
      for (let sale = 0; sale < sales; sale += 1) await sell()
      await settle()
      return perSale(before, await readCounters(observer), sales)
    } finally {
      await service.stop()
      await observer.end()
      await database.close()
    }
  } finally {
    await template.remove()
  }
}

type Counters = { wal: number; tables: Map<string, number[]> }

async function readCounters(observer: Client): Promise<Counters> {
  // An idle session hands its counts over ten seconds after its last statement.
  await observer.query('select pg_sleep(11)')
  const { rows } = await observer.query<{ wal: string }>(
    `select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') as wal`,
  )
  const counts = await observer.query<{ name: string; counts: string[] }>(
    `select relname as name, array[n_tup_ins, n_tup_upd, n_tup_hot_upd, n_tup_del]::text[] as counts
     from pg_stat_user_tables`,
  )
  const tables = counts.rows.map((row) => [row.name, row.counts.map(Number)] as const)
  return { wal: Number(rows[0]?.wal), tables: new Map(tables) }
}

function perSale(before: Counters, after: Counters, sales: number): SaleWrites {
  const tables: SaleWrites['tables'] = {}
  for (const [name, counts] of [...after.tables].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    if (writtenByTheSecond.has(name)) continue
    const was = before.tables.get(name) ?? []
    const [inserted = 0, updated = 0, hot = 0, deleted = 0] = counts.map(
      (count, index) => (count - (was[index] ?? 0)) / sales,
    )
    if (inserted + updated + deleted > 0) tables[name] = { inserted, updated, hot, deleted }
  }
  const sum = (key: 'inserted' | 'updated' | 'hot') =>
    Object.values(tables).reduce((total, table) => total + table[key], 0)
  return {
    walBytes: (after.wal - before.wal) / sales,
    ...{ inserted: sum('inserted'), updated: sum('updated'), hot: sum('hot'), tables },
  }
}
