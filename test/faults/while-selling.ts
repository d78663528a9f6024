import { setTimeout as wait } from 'node:timers/promises'
import { expect } from 'vitest'
import type { RealProcess } from '../process/real-process.ts'
import { compareWithProvider } from './compare-with-provider.ts'
import { sell } from './persistent-sale.ts'
import {
  type AddressIndex,
  openProcessTestbed,
  type ProcessTestbed,
  type ProcessTestbedOptions,
  type StartOptions,
  untilQuiet,
} from './process-testbed.ts'
import type { SimulatedTill } from './simulated-till.ts'

/** Tills that sell at real processes, one sale after the other, each at its own box. */
export type Selling = {
  processes: ProcessTestbed
  /** The first process. */
  first: RealProcess
  /** Starts another one. */
  start(at: AddressIndex, starting?: StartOptions): Promise<RealProcess>
  sold(): number
  /** Resolves when this many more sales have begun. */
  sellMore(count: number): Promise<void>
}

const tillCount = 8

/**
 * Runs `work` while tills charge, cancel and refund. Afterwards the provider's orders, the rows of the service and the answers to the
 * tills must agree: nothing is lost or doubled.
 */
export async function whileSelling(
  options: ProcessTestbedOptions & { first?: StartOptions },
  work: (selling: Selling) => Promise<void>,
): Promise<void> {
  const processes = await openProcessTestbed(options)
  const stop = new AbortController()
  const tills: SimulatedTill[] = []
  const running: RealProcess[] = []
  const start = async (at: AddressIndex, starting?: StartOptions) => {
    const started = await processes.start(at, starting)
    running.push(started)
    return started
  }
  const sold = () => tills.reduce((sum, till) => sum + till.sales.length, 0)
  const sellMore = async (count: number) => {
    const enough = sold() + count
    while (sold() < enough) await wait(5)
  }
  try {
    const first = await start(0, options.first)
    for (let at = 0; at < tillCount; at += 1) tills.push(await processes.openTill(1, at))
    const selling = tills.map((till) => sell(till, stop.signal))
    await sellMore(tillCount)
    await work({ processes, first, start, sold, sellMore })
    stop.abort()
    await Promise.all(selling)
    await untilQuiet(processes.database)
    await compareWithProvider(processes.testbed, tills)
    expect(tills.flatMap((till) => till.problems)).toEqual([])
  } finally {
    stop.abort()
    for (const { child } of running) child.kill('SIGKILL')
    await Promise.all(running.map(({ ended }) => ended))
    await processes.close()
  }
}
