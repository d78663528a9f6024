import { readFile } from 'node:fs/promises'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { migrationsFolder } from '../../src/db/migrate.ts'
import { actionOf, type Cause } from '../../src/fleet/causes.ts'
import { presentCause } from '../../src/fleet/former-causes.ts'
import { toChange } from '../../src/fleet/health-changes.ts'
import { messageOf } from '../../src/fleet/health-texts.ts'
import { fleetNotification } from '../../src/notifications/fleet-message.ts'
import { listFleetChanges, writeFleetChanges } from '../../src/repositories/fleet/fleet-states.ts'
import { openTestDatabase } from '../support/database.ts'

const at = new Date('2026-11-27T08:00:00Z')
const former = {
  ...({ at, kind: 'destination', scope: 'stock', name: 'web' } as const),
  ...({ from_state: 'down', from_cause: 'destination_resting', state: 'attention' } as const),
  ...{ cause: 'owed_for_long', since: at, about: { owed: 40 } },
}

let database: Database
beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

const changes = () =>
  listFleetChanges(database.db, {
    ...{ client: undefined, stores: undefined, cajaId: undefined, before: undefined, limit: 10 },
  })

test('changes of the version before are read with the present names, and the migration renames stored ones', async () => {
  await database.db.transaction().execute((trx) => writeFleetChanges(trx, [former]))
  const [row] = await changes()
  expect(row && toChange(row)).toMatchObject({
    from: { cause: 'destination_failing' },
    to: { cause: 'deliveries_late', about: { pending: 40 } },
  })

  const migration = await readFile(`${migrationsFolder}0118_cause_names.sql`, 'utf8')
  await sql.raw(migration).execute(database.db)
  expect(await changes()).toMatchObject([
    { from_cause: 'destination_failing', cause: 'deliveries_late', about: { pending: 40 } },
  ])
  const { rows } = await sql`select cause, about from fleet_states`.execute(database.db)
  expect(rows).toEqual([{ cause: 'deliveries_late', about: { pending: 40 } }])
})

test('a stored message of the version before gets its present text', () => {
  const subject = {
    ...({ kind: 'destination', scope: 'stock', name: 'web', state: 'attention' } as const),
    ...{ since: null, about: { owed: 40 } as object },
  }
  const message = fleetNotification({
    ...{ id: 'msg_1', at: at.toISOString(), kind: 'trouble' as const },
    ...{ cause: 'owed_for_long' as Cause, subjects: [subject], more: 0, dependents: 0 },
  })
  expect(message.event.data).toMatchObject({
    cause: 'deliveries_late',
    subjects: [{ message: expect.stringContaining('are late: 40') }],
  })
})

test('a cause of a newer version has no message and no action, and no exception is thrown', () => {
  const cause = presentCause('of_tomorrow')
  expect(cause).toBe('of_tomorrow')
  expect(messageOf({ cause, since: at, about: {} }, 'es', at)).toBeNull()
  expect(actionOf(cause)).toBeNull()
})
