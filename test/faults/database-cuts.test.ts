/** @module-tag long */

import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { needsPostgres, openPostgresClone, postgresUrl } from '../support/database.ts'
import { onServer } from '../support/postgres-template.ts'
import { compareWithProvider } from './compare-with-provider.ts'
import { createDraw } from './draw.ts'
import { sell } from './persistent-sale.ts'
import { newTill } from './simulated-till.ts'
import { openTestbed } from './testbed.ts'

test.skipIf(!postgresUrl)(
  `lost database connections during charges lose no order and no money, and each till gets an answer (${needsPostgres})`,
  async () => {
    const serverUrl = postgresUrl as string
    const { database, url } = await openPostgresClone(serverUrl)
    const testbed = await openTestbed(database, 6)
    const done = new AbortController()
    const tills = testbed.shops.map((shop, index) =>
      newTill({ testbed, shop, draw: createDraw('cuts', index) }),
    )
    try {
      let isSelling = true
      const selling = Promise.all(tills.map((till) => sell(till, done.signal))).finally(() => {
        isSelling = false
      })
      let cut = 0
      for (let round = 0; round < 8; round += 1) {
        await wait(100)
        cut += await onServer(serverUrl, async (client) => {
          const { rowCount } = await client.query(
            'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1',
            [new URL(url).pathname.slice(1)],
          )
          return rowCount ?? 0
        })
        // The leases of cut requests end; a sweep that is cut itself runs again.
        await testbed.sweepAfter(2_000).catch(() => undefined)
      }
      done.abort()
      while (isSelling) {
        await wait(50)
        await testbed.sweepAfter(2_000)
      }
      await selling
      await testbed.sweepAfter(46_000)
      await testbed.sweepAfter(2_000)
      for (const service of testbed.services) await service.inbox.idle()
      await compareWithProvider(testbed, tills)
      expect(tills.flatMap((till) => till.problems)).toEqual([])
      expect(cut).toBeGreaterThan(16)
      expect(testbed.providerOrders().length).toBeGreaterThan(12)
    } finally {
      done.abort()
      await testbed.stop()
      await database.close()
    }
  },
  60_000,
)
