import { expect, test } from 'vitest'
import { DatabaseUnavailableError } from '../../src/db/database-failures.ts'
import { DeliveryWorker } from '../../src/flows/deliver/delivery-worker.ts'
import { leading } from './deliver-support.ts'

/** A queue with one open item, whose database fails at one read. */
function openQueue(asked: 'walk' | 'load') {
  const delivered: string[] = []
  const isQueued = { current: true }
  let isAway = true
  const ask = (what: typeof asked) => {
    if (!isAway || what !== asked) return
    isAway = false
    throw new DatabaseUnavailableError('The connection to the database was lost')
  }
  const worker = new DeliveryWorker<string, string>(
    {
      leader: leading,
      pollMs: 20,
      sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
      log: { info() {}, warn() {}, error() {} },
    },
    {
      concurrency: 1,
      admit: () => ({ starts: 1, waitMs: 0 }),
      walk: () => ({
        next: async () => {
          ask('walk')
          return isQueued.current ? [{ pk: 'P-1', row: 'row' }] : []
        },
      }),
      load: async (pks) => {
        ask('load')
        return pks.map((pk) => ({ pk, row: 'row' }))
      },
      delayDeliveries: async () => {},
      attempt: async ([owed]) => {
        delivered.push(owed?.pk ?? '')
        return ['done']
      },
      lost: async () => {},
      save: async () => {
        isQueued.current = false
        // It changed meanwhile.
        return delivered.length === 1 && asked === 'load' ? ['P-1'] : []
      },
    },
  )
  return { worker, delivered }
}

test.each([
  ['walk', 1],
  ['load', 2],
] as const)(
  'after a failed read of %s the work continues as soon as the database is back, not a minute later',
  async (asked, times) => {
    const { worker, delivered } = openQueue(asked)
    await expect.poll(() => delivered, { timeout: 10_000, interval: 5 }).toHaveLength(times)
    await worker.stop(0)
  },
)
