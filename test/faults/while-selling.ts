import { setTimeout as wait } from 'node:timers/promises'
import { expect } from 'vitest'
import type { RealProcess } from '../process/real-process.ts'
import type { Lane } from './lane.ts'
import { sell } from './persistent-sale.ts'
import {
  openProcessWorld,
  type Place,
  type ProcessWorld,
  type ProcessWorldOptions,
  type Starting,
  untilQuiet,
} from './process-world.ts'
import { judge } from './verdict.ts'

/** Tills that sell at real processes, one sale after the other, each at its own box. */
export type Selling = {
  shopping: ProcessWorld
  /** The first process. */
  first: RealProcess
  /** Starts another one. */
  start(at: Place, starting?: Starting): Promise<RealProcess>
  sold(): number
  /** Resolves when so many more sales were begun. */
  sellMore(count: number): Promise<void>
}

const tills = 8

/**
 * Plays `work` while tills charge, cancel and refund. Afterwards the provider's books, the tables and what the tills were told must
 * agree: nothing lost, nothing doubled.
 */
export async function whileSelling(
  options: ProcessWorldOptions & { first?: Starting },
  work: (selling: Selling) => Promise<void>,
): Promise<void> {
  const shopping = await openProcessWorld(options)
  const stop = new AbortController()
  const lanes: Lane[] = []
  const running: RealProcess[] = []
  const start = async (at: Place, starting?: Starting) => {
    const started = await shopping.start(at, starting)
    running.push(started)
    return started
  }
  const sold = () => lanes.reduce((sum, lane) => sum + lane.sales.length, 0)
  const sellMore = async (count: number) => {
    const enough = sold() + count
    while (sold() < enough) await wait(5)
  }
  try {
    const first = await start(0, options.first)
    for (let at = 0; at < tills; at += 1) lanes.push(await shopping.openLane(1, at))
    const selling = lanes.map((lane) => sell(lane, stop.signal))
    await sellMore(tills)
    await work({ shopping, first, start, sold, sellMore })
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
  }
}
