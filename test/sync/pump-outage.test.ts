import { expect, test } from 'vitest'
import { DatabaseUnavailableError } from '../../src/db/failures.ts'
import { startPump } from '../../src/sync/queue/pump.ts'
import type { Claim } from '../../src/sync/queue/settlements.ts'

/** A queue with one wake-up, whose database loses answers after the effect. */
function openQueue(loses: 'claim' | 'give back') {
  const waiting: Claim[] = [{ pk: 'P-1', id: 'job', retryCount: 0 }]
  const active = new Map<string, Claim>()
  const delivered = Promise.withResolvers<string>()
  let isLosing = true
  const lose = (what: typeof loses) => {
    if (!isLosing || what !== loses) return
    isLosing = false
    throw new DatabaseUnavailableError('The connection to the database was lost')
  }
  let loads = 0
  const pump = startPump<string, string>(
    {
      tenure: { current: () => ({ signal: new AbortController().signal }), stop: async () => {} },
      fetch: async (limit) => {
        const claims = waiting.splice(0, limit)
        for (const one of claims) active.set(one.id, one)
        if (claims.length > 0) lose('claim')
        return claims
      },
      giveBack: async (claims) => {
        lose('give back')
        for (const { id } of claims) active.delete(id)
        waiting.push(...claims)
      },
      recover: async (held) => {
        for (const [id, claim] of [...active]) {
          if (held.has(id)) continue
          active.delete(id)
          waiting.push(claim)
        }
      },
      pollMs: 20,
      recoverMs: 3600_000,
      sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
      log: { info() {}, warn() {}, error() {} },
    },
    {
      concurrency: 1,
      admit: () => ({ starts: 1, waitMs: 0 }),
      load: async (pks) => {
        loads += 1
        if (loses === 'give back' && loads === 1) {
          throw new DatabaseUnavailableError('No connection to the database')
        }
        return new Map(pks.map((pk) => [pk, 'row']))
      },
      attempt: async (pk) => {
        delivered.resolve(pk)
        return 'done'
      },
      settle: async (group) => {
        for (const { claim } of group) active.delete(claim.id)
      },
    },
  )
  return { pump, delivered: delivered.promise }
}

test.each(['claim', 'give back'] as const)(
  'a delivery whose %s lost its answer is worked as soon as the database is back, not a minute later',
  async (what) => {
    const { pump, delivered } = openQueue(what)
    const late = new Promise((resolve) => setTimeout(resolve, 2_000, 'nothing within 2 s'))
    expect(await Promise.race([delivered, late])).toBe('P-1')
    await pump.stop(0)
  },
)
