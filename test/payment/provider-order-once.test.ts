import { afterAll, beforeAll, expect, test } from 'vitest'
import { constraintOf } from '../../src/db/database-failures.ts'
import { orderRow } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, charge, openShop, payByCard } from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

test('the database refuses a second row with the same provider order, by the constraint that state.ts expects', async () => {
  const till = await openShop(service, 'one row', '7600041')
  const sell = async (reference: string) => {
    const orderId = String((await charge(service, till, { reference })).json().order_id)
    await act(service, orderId, payByCard)
    return orderId
  }
  const first = await sell('A')
  const second = await sell('B')
  const { mp_order_id } = await orderRow(service, first)
  const refused = await service.database.db
    .updateTable('orders')
    .set({ mp_order_id })
    .where('id', '=', second)
    .execute()
    .catch((error: unknown) => constraintOf(error))
  expect(refused).toBe('orders_mp_order_id_key')
})
