import { setTimeout as wait } from 'node:timers/promises'
import type { Database } from '../../src/db/database.ts'
import {
  type AlertDeps,
  type AlertFlow,
  createAlerts,
} from '../../src/notifications/flow-alerts.ts'
import { markDelivered, recordChanges } from '../../src/repositories/flows/deliveries.ts'
import { retryFailed } from '../../src/sync/deliver/retry-failed.ts'
import { alertsOf } from './receivers.ts'

export const start = Date.parse('2026-11-21T12:00:00.000Z')

let flows = 0

/** A flow of its own with a clock of its own, its failures and its deliveries. */
export function createWorld(database: Database) {
  flows += 1
  const name = `flow-${flows}`
  const clock = { at: start }
  const now = () => new Date(clock.at)
  const logged: string[] = []
  const note = (fields: object, message: string) => {
    logged.push(JSON.stringify({ ...fields, message }))
  }
  const deps: AlertDeps = {
    database,
    now,
    sleep: (_ms, signal) => wait(5, undefined, { signal }),
    processId: 'one',
    mail: { smtpUrl: undefined, mailFrom: undefined },
    isInWindow: () => true,
    log: { info: note, warn: note, error: note },
  }
  return {
    name,
    clock,
    logged,
    deps,
    /** Another process on the same database. */
    process: (processId: string, change: Partial<AlertDeps> = {}) =>
      createAlerts({ ...deps, processId, ...change }),
    flow: (alerts: object, env: Record<string, string> = {}): AlertFlow => ({
      name,
      allowPrivateNetwork: true,
      windows: undefined,
      alerts: alertsOf(alerts, env),
      source: { type: 'file' } as AlertFlow['source'],
      destinations: [{ name: 'web' }, { name: 'dwh' }] as AlertFlow['destinations'],
    }),
    /** Items change, and their deliveries fail for good. */
    async fail(pks: readonly string[], destination = 'web', error = 'HTTP 422') {
      const to = { flow: name, destinations: [destination], keepsHistory: false }
      await database.transaction(async (trx) => {
        const changes = pks.map((pk) => ({
          pk,
          kind: 'upsert' as const,
          hash: `h-${pk}`,
          value: { pk },
          change: 1,
        }))
        await recordChanges(trx, to, changes, now())
        // As markFailed, for all at once.
        await trx
          .updateTable('deliveries')
          .set({ state: 'failed', attempts: 5, last_error: error, finished_at: now() })
          .where('flow', '=', name)
          .where('destination', '=', destination)
          .where('pk', 'in', [...pks])
          .execute()
      })
    },
    retry: (destination = 'web') =>
      retryFailed({ database, queue: { wake: async () => {} }, now }, { flow: name, destination }),
    deliver: (pks: readonly string[], destination = 'web') =>
      database.transaction(async (trx) => {
        for (const pk of pks) {
          const target = { flow: name, destination }
          await markDelivered(trx, target, pk, { fields: undefined, at: now() })
        }
      }),
  }
}

export type World = ReturnType<typeof createWorld>

export const seconds = (count: number) => count * 1_000
export const minutes = (count: number) => count * 60_000
export const hours = (count: number) => count * 3_600_000
