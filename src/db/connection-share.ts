import type { Driver } from 'kysely'
import { assertOutsideTransaction } from './transactions.ts'

/**
 * The driver for work that uses at most `most` of its connections at a time. This work waits in the order of its
 * requests, so other work never waits behind all of it.
 */
export function limitConnections(driver: Driver, most: number): Driver {
  const waiting: (() => void)[] = []
  let taken = 0

  const leave = () => {
    const next = waiting.shift()
    if (next) next()
    else taken -= 1
  }

  return {
    ...driver,
    acquireConnection: async (options) => {
      // A query inside a transaction would wait for itself.
      assertOutsideTransaction()
      if (taken < most) taken += 1
      else await new Promise<void>((resolve) => waiting.push(resolve))
      try {
        return await driver.acquireConnection(options)
      } catch (error) {
        leave()
        throw error
      }
    },
    releaseConnection: async (connection, options) => {
      try {
        await driver.releaseConnection(connection, options)
      } finally {
        leave()
      }
    },
  }
}
