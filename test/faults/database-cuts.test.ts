import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { needsPostgres, openPostgresClone, postgresUrl } from '../support/database.ts'
import { onServer } from '../support/postgres-template.ts'
import { createDraw } from './draw.ts'
import { newLane } from './lane.ts'
import { sell } from './persistent-sale.ts'
import { judge } from './verdict.ts'
import { openWorld } from './world.ts'

test.skipIf(!postgresUrl)(
  `database connections that end in the midst of charges cost no answer and no money (${needsPostgres})`,
  async () => {
    const serverUrl = postgresUrl as string
    const { database, url } = await openPostgresClone(serverUrl)
    const world = await openWorld(database, 6)
    const done = new AbortController()
    const lanes = world.shops.map((shop, index) =>
      newLane({ world, shop, draw: createDraw('cuts', index) }),
    )
    try {
      let isSelling = true
      const selling = Promise.all(lanes.map((lane) => sell(lane, done.signal))).finally(() => {
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
        // The claims of requests that were cut end; a sweep that is cut itself comes again.
        await world.sweepAfter(2_000).catch(() => undefined)
      }
      done.abort()
      while (isSelling) {
        await wait(50)
        await world.sweepAfter(2_000)
      }
      await selling
      await world.sweepAfter(46_000)
      await world.sweepAfter(2_000)
      for (const service of world.services) await service.inbox.idle()
      await judge(world, lanes)
      expect(lanes.flatMap((lane) => lane.problems)).toEqual([])
      expect(cut).toBeGreaterThan(16)
      expect(world.books().length).toBeGreaterThan(12)
    } finally {
      done.abort()
      await world.stop()
      await database.close()
    }
  },
  60_000,
)
