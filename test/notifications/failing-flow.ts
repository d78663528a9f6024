import { setTimeout as wait } from 'node:timers/promises'
import type { Database } from '../../src/db/database.ts'
import { retryFailed } from '../../src/flows/deliver/retry-deliveries.ts'
import { type NotificationDeps, Notifications } from '../../src/notifications/notifications.ts'
import type { FlowToNotify, NotificationSettings } from '../../src/notifications/receivers.ts'
import { recordChanges } from '../../src/repositories/flows/deliveries.ts'
import { writeResults } from '../../src/repositories/flows/delivery-results.ts'
import { alertsOf } from './receivers.ts'

export const start = Date.parse('2026-11-21T12:00:00.000Z')

let flows = 0

/** No receivers of the settings; only those of flows are notified. */
const noReceivers: NotificationSettings = {
  mailTo: [],
  slackUrl: undefined,
  webhookUrl: undefined,
  webhookSecret: undefined,
  locale: 'en',
  quietHours: undefined,
  allowPrivateNetwork: true,
}

/** A new flow with its own clock, whose deliveries fail and succeed on demand. */
export function createFailingFlow(database: Database) {
  flows += 1
  const name = `flow-${flows}`
  const clock = { at: start }
  const now = () => new Date(clock.at)
  const logged: string[] = []
  const log = (fields: object, message: string) => {
    logged.push(JSON.stringify({ ...fields, message }))
  }
  const deps: NotificationDeps = {
    database,
    now,
    sleep: (_ms, signal) => wait(5, undefined, { signal }),
    processId: 'one',
    mail: { smtpUrl: undefined, mailFrom: undefined },
    log: { info: log, warn: log, error: log },
  }
  return {
    name,
    clock,
    logged,
    deps,
    /** Another process on the same database. */
    process: (
      processId: string,
      change: Partial<NotificationDeps> = {},
      settings: Partial<NotificationSettings> = {},
    ): Notifications =>
      new Notifications({ ...deps, processId, ...change }, { ...noReceivers, ...settings }),
    definition: (alerts: object, env: Record<string, string> = {}): FlowToNotify => ({
      name,
      allowPrivateNetwork: true,
      reach: { privateHosts: [] },
      alerts: alertsOf(alerts, env),
      destinations: [{ name: 'web' }, { name: 'dwh' }],
    }),
    /** Items change, and their deliveries fail after all attempts. */
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
        // As writeResults does it.
        await trx
          .updateTable('deliveries')
          .set({ state: 'failed', attempts: 5, last_error: error, finished_at: now() })
          .where('flow', '=', name)
          .where('destination', '=', destination)
          .where('pk', 'in', [...pks])
          .execute()
      })
    },
    retry: (destination = 'web') => retryFailed({ database, now }, { flow: name, destination }),
    deliver: (pks: readonly string[], destination = 'web') =>
      database.transaction(async (trx) => {
        const results = pks.map((pk) => ({ pk, became: 'delivered' as const }))
        const target = { flow: name, destination, keepsHistory: false, isReadOnce: false }
        await writeResults(trx, target, results, now())
      }),
  }
}

export type FailingFlow = ReturnType<typeof createFailingFlow>

export const seconds = (count: number) => count * 1_000
export const minutes = (count: number) => count * 60_000
export const hours = (count: number) => count * 3_600_000
