import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openOwnShop } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { countStatements } from '../support/statements.ts'
import { charge } from '../support/till.ts'

const boxes = 200
const ordersOfBox = 5

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

/** A chain with boxes that sell all day, inserted into the tables. */
async function openChain(client: string): Promise<void> {
  const now = service.clock.now()
  await sql`insert into pos (id, client, store_id, external_id, mp_external_id, name, mp_pos_id, state, created_at)
    select gen_random_uuid(), ${client}, stores.id, 'BOX-' || n, 'BOX' || n, 'Box ' || n, 'MP' || n, 'active', ${now}
    from stores, generate_series(1, ${boxes}::integer) as n where client = ${client}`.execute(
    service.database.db,
  )
  await sql`insert into orders (id, client, caja_id, sucursal_id, terminal_id, mp_user_id, external_reference,
      mp_external_reference, reference_attempt, amount_cents, send_ticket_number, print_ticket, payment_method,
      expiration_minutes, creation, mp_order_id, status, created_at, last_updated_at, expires_at)
    select gen_random_uuid(), ${client}, 'BOX-' || n, 'SUC-1', 'T-' || n, 1, n || '-' || sale, n || '-' || sale, 1, 100, true,
      false, 'all', 16, 'confirmed', 'ORD' || n || '-' || sale, 'processed', at, at + interval '9 seconds',
      at + interval '16 minutes'
    from generate_series(1, ${boxes}::integer) as n, generate_series(1, ${ordersOfBox}::integer) as sale,
      lateral (select ${now}::timestamptz - sale * interval '1 minute' as at) as moment`.execute(
    service.database.db,
  )
}

test('deriving many boxes takes no more statements than one, and a charge takes no more because of it', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'Cadena')
  const other = await openOwnShop(service, 'Kiosco')
  const pass = () => countStatements(() => service.deps.fleet.tick())
  const before = await countStatements(() => charge(service, till, { reference: 'before' }))
  await pass()
  const few = await pass()

  await openChain(till.client)
  // The first pass writes the new states.
  await pass()
  const many = await pass()
  expect(many.length, many.join('\n')).toBeLessThanOrEqual(few.length)
  const health = await service.deps.fleet.read()
  expect(health.boxes).toHaveLength(boxes + 2)
  expect(health.boxes.filter(({ state }) => state === 'ok')).toHaveLength(boxes + 1)

  const after = await countStatements(() => charge(service, other, { reference: 'after' }))
  expect(after.length, after.join('\n')).toBeLessThanOrEqual(before.length)
})
