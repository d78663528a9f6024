import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Tables } from '../../sandbox/rows.ts'
import { truncateAll } from '../support/database.ts'
import { newAccount, ordersAtProvider } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  charge,
  enrol,
  enrolThroughApi,
  openShop,
  openShopThroughApi,
  type Till,
} from '../support/till.ts'

let service: TestService

beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

/** They are of requests, not of the shop. */
const ofRequests = ['leases']

/** The same in both: everything but ids, secrets and times. */
function withoutChance(row: object, accountId: number): unknown {
  const text = JSON.stringify(row)
    .replaceAll(String(accountId), '1')
    .replace(/[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}/g, 'UUID')
    .replace(/"\d{4}-\d\d-\d\dT[^"]*"/g, '"TIME"')
    .replace(/v1\.k1\.[\w-]+/g, 'ENCRYPTED')
    .replace(/NEWLAND_N950__N950NCB\d+/g, 'TERMINAL')
    .replace(/"(APP_USR-|TG-)[^"]*"/g, '"TOKEN"')
    .replace(/"[0-9a-f]{32,64}"/g, '"HEX"')
    .replace(/"mk_[^"]*"/g, '"MASK"')
  return JSON.parse(text, (name, value) =>
    /^(mp_(store|pos)_id|storeId|posId|id|seq|duration_ms|expiresAt)$/.test(name)
      ? typeof value
      : value,
  )
}

async function rowsOf(till: Till): Promise<Record<string, unknown[]>> {
  await service.deps.keyUses.flush()
  await service.deps.fleet.flush()
  const { db } = service.database
  const tables = await sql<{ name: string }>`select tablename as name from pg_tables
    where schemaname = 'public' and not starts_with(tablename, 'kysely_')`.execute(db)
  const found: Record<string, unknown[]> = {}
  for (const { name } of tables.rows.filter((table) => !ofRequests.includes(table.name))) {
    const { rows } = await sql<object>`select to_jsonb(t) as row from ${sql.table(name)} t`.execute(
      db,
    )
    // An update, such as that of a sealed entry, moves a row in its table.
    found[name] = rows
      .map((row) => withoutChance(row, till.mpUserId))
      .toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
  }
  return found
}

/** What the provider has of the account; a used code is of the consent page alone. */
function stateAtProvider({ mpUserId }: Till): unknown {
  const { sellers, accessTokens, refreshTokens, stores, pos, terminals } = service.sandbox.context
    .state.tables satisfies Tables
  return [sellers, accessTokens, refreshTokens, stores, pos, terminals].map((table) =>
    [...(table as Map<string, { id?: number; userId?: number }>).values()]
      .filter((row) => row.userId === mpUserId || row.id === mpUserId)
      .map((row) => withoutChance(row, mpUserId)),
  )
}

test.each([
  ['a client with a key', enrolThroughApi, enrol],
  ['a shop', openShopThroughApi, openShop],
] as const)(
  '%s for tests is the same, row by row, as one made through the API',
  async (_what, throughApi, seeded) => {
    await truncateAll(service.database)
    const made = await throughApi(service, 'Kiosco Ñandú', newAccount())
    const expected = { rows: await rowsOf(made), provider: stateAtProvider(made) }
    expect(expected.rows.activity_log).not.toEqual([])

    await truncateAll(service.database)
    const till = await seeded(service, 'Kiosco Ñandú', newAccount())
    expect({ rows: await rowsOf(till), provider: stateAtProvider(till) }).toEqual(expected)
  },
)

test('a shop for tests takes a charge', async () => {
  const shop = await openShop(service, 'Almacen', newAccount())
  const charged = await charge(service, shop, { reference: 'first' })
  expect(charged.statusCode).toBe(201)
  expect(ordersAtProvider(service, shop)).toMatchObject([{ terminal_id: shop.terminalId }])
})
