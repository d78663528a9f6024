import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Lane } from '../faults/lane.ts'
import { sell } from '../faults/persistent-sale.ts'
import { openProcessWorld, untilQuiet } from '../faults/process-world.ts'
import { judge } from '../faults/verdict.ts'
import { nameInRun, needsPostgres, postgresUrl } from '../support/database.ts'
import { dropDatabase, onServer, urlOf } from '../support/postgres-template.ts'
import { checkOutVersionBefore } from '../support/version-before.ts'
import type { RealProcess } from './real-process.ts'

const tills = 8
const salesPerPart = 24

test.skipIf(!postgresUrl)(
  `the version before charges while this one migrates and starts, and both charge on one database (${needsPostgres})`,
  { timeout: 240_000, tags: ['long'] },
  async (context) => {
    const before = await checkOutVersionBefore().catch((error: unknown) =>
      context.skip(`the version before is not in the history at hand: ${String(error)}`),
    )
    const server = postgresUrl as string
    const name = nameInRun('two_versions')
    await onServer(server, (client) => client.query(`create database ${name}`))
    const shopping = await openProcessWorld({ databaseUrl: urlOf(server, name) })
    const stop = new AbortController()
    const lanes: Lane[] = []
    const running: RealProcess[] = []
    try {
      const older = await shopping.start(0, before)
      running.push(older)
      for (let at = 0; at < tills; at += 1) lanes.push(await shopping.openLane(1, at))
      const sold = () => lanes.reduce((sum, lane) => sum + lane.sales.length, 0)
      const sellMore = async () => {
        const enough = sold() + salesPerPart
        while (sold() < enough) await wait(5)
      }
      const selling = lanes.map((lane) => sell(lane, stop.signal))
      await sellMore()
      const atStart = sold()
      running.push(await shopping.start(1))
      expect(sold()).toBeGreaterThan(atStart)
      shopping.sendTo(0, 1)
      await sellMore()
      shopping.sendTo(1, 0)
      await sellMore()
      shopping.sendTo(1)
      older.child.kill('SIGTERM')
      expect(await older.ended).toBe(0)
      await sellMore()
      stop.abort()
      await Promise.all(selling)
      await untilQuiet(shopping.database)
      await judge(shopping.world, lanes)
      expect(lanes.flatMap((lane) => lane.problems)).toEqual([])
    } finally {
      stop.abort()
      for (const { child } of running) child.kill('SIGKILL')
      await Promise.all(running.map(({ ended }) => ended))
      await shopping.close()
      await dropDatabase(server, name)
    }
  },
)
