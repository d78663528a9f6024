import { readFileSync } from 'node:fs'
import type { Insertable, Selectable, Updateable } from 'kysely'
import { afterAll, beforeAll, expect, expectTypeOf, test } from 'vitest'
import { tableTypes, tableTypesFile } from '../../checks/table-types/generate.ts'
import type { Database } from '../../src/db/database.ts'
import type {
  ChargebacksTable,
  ChargeClassesTable,
  ClosingsTable,
  FlowStateTable,
  OrdersTable,
} from '../../src/db/tables.ts'
import type { ChargebackState } from '../../src/domain/chargeback.ts'
import type { ClosingResult, ClosingState } from '../../src/domain/closing.ts'
import type { ChargeClass } from '../../src/domain/net-amount.ts'
import type { OrderStatus, Payment, PaymentMethod } from '../../src/domain/order.ts'

import { openTestDatabase } from '../support/database.ts'

let database: Database
beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

test(`${tableTypesFile} has the tables of the migrations (npm run db:types)`, {
  tags: ['long'],
}, async () => {
  const file = new URL(`../../${tableTypesFile}`, import.meta.url)
  expect(readFileSync(file, 'utf8')).toBe(await tableTypes(database.db))
})

// The type check proves these two.
test('a statement cannot change what is fixed, insert what comes later, or write parsed JSON', () => {
  expectTypeOf<Updateable<OrdersTable>>().not.toHaveProperty('whole_amount')
  expectTypeOf<Insertable<OrdersTable>>().not.toHaveProperty('currency')
  expectTypeOf<Updateable<FlowStateTable>['item_rules']>().toEqualTypeOf<string | undefined>()
  expectTypeOf<Insertable<OrdersTable>['payments']>().toEqualTypeOf<string | undefined>()
  expectTypeOf<Selectable<OrdersTable>['payments']>().toEqualTypeOf<Payment[]>()
})

test('the checks of the database have the values of the code', () => {
  expectTypeOf<Selectable<OrdersTable>['status']>().toEqualTypeOf<OrderStatus>()
  expectTypeOf<Selectable<OrdersTable>['payment_method']>().toEqualTypeOf<PaymentMethod>()
  expectTypeOf<Selectable<ClosingsTable>['state']>().toEqualTypeOf<ClosingState>()
  expectTypeOf<Selectable<ClosingsTable>['result']>().toEqualTypeOf<ClosingResult | null>()
  expectTypeOf<Selectable<ChargebacksTable>['state']>().toEqualTypeOf<ChargebackState>()
  expectTypeOf<Selectable<ChargeClassesTable>['class']>().toEqualTypeOf<ChargeClass>()
})
