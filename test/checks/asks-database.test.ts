import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { asksForDatabase } from '../support/asks-database.ts'

test.each([
  ['by its own words', 'flows/sources-postgres.test.ts', true],
  ['by the service that it starts', 'payment/till-day.test.ts', true],
  ['by a file of its own folder', 'db/db-transaction.test.ts', true],
  ['not at all', 'flows/sending-window.test.ts', false],
])('.ci/run plays a file on PostgreSQL if it asks for the database: %s', (_how, file, asks) => {
  expect(asksForDatabase(fileURLToPath(new URL(`../${file}`, import.meta.url)))).toBe(asks)
})
