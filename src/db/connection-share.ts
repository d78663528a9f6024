import type { Driver } from 'kysely'
import { assertOutsideTransaction } from './flow-guard.ts'

/**
 * The driver for users who have `most` of its connections at a time between them. They wait among themselves, in the order of
 * asking: whoever else needs a connection never stands behind all of them.
 */
export function apart(driver: Driver, most: number): Driver {
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
      // He would wait for himself.
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
