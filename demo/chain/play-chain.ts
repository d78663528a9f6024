import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { openDatabase } from '../../src/db/open-database.ts'
import { demoFolder, filesOfFlows, type ServiceProcess, startService } from '../service-process.ts'
import type { Steps } from '../steps.ts'
import { writeChainFlows } from './chain-flows.ts'
import { chain, daysOf } from './chain-plan.ts'
import type { ChainKey } from './chain-service.ts'
import { openClosings, signYesterday } from './close-days.ts'
import { fillSales, tellSandbox } from './fill-sales.ts'
import { connectChain, makeKey, openStores } from './open-chain.ts'
import { moveToYesterday, playSales, refuseCharges } from './play-sales.ts'

/**
 * Fills an instance with the chain, in a folder that has none yet, and starts the service on it. Sales of the past are written
 * while the service is stopped, for the embedded database belongs to one process. A folder that was filled before is started as
 * it is. `onStart` gets each process. Answers the process that runs, and a key of the chain.
 */
export async function playChain(
  shopUrl: string,
  steps: Steps,
  onStart: (service: ServiceProcess) => void,
): Promise<{ service: ServiceProcess; key: string }> {
  const dataDir = demoFolder('chain')
  const flowsDir = resolve(dataDir, 'flows')
  const isFilled = existsSync(join(dataDir, 'pglite'))
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  await writeChainFlows(shopUrl, { flowsDir, filesDir: filesOfFlows(dataDir) })
  const settings = {
    POS_CREATE_DELAY_MS: '0',
    RATE_LIMIT_PER_SECOND: '10000',
    FLOWS_START_PAUSED: 'false',
  }
  const start = async () => {
    const service = await startService(shopUrl, { dataDir, flowsDir, settings })
    onStart(service)
    return service
  }

  if (isFilled) {
    return steps.step('Start the service on the chain that is there', async () => {
      const service = await start()
      const { key } = await makeKey(service)
      const shown = `filled by an earlier demo; remove ${dataDir} and start again for sales of today`
      return { shown, value: { service, key } }
    })
  }

  const first = await steps.step('Start the service and its database', async () => {
    const service = await start()
    return { shown: `payment API on ${service.url}`, value: service }
  })
  const key = await steps.step('Connect the chain', async () => {
    const made = await connectChain(first)
    return { shown: `client ${chain.client}, account ${made.mpUserId}`, value: made }
  })
  const terminals = await steps.step('Create its stores and boxes, pair terminals', async () => {
    const paired = await openStores(first, key)
    const shown = `${chain.stores} stores, ${chain.stores * chain.boxesPerStore} boxes, ${Object.keys(paired).length} terminals`
    return { shown, value: paired }
  })
  const names = await steps.step('Sell, refund and cancel in one store', async () => {
    const moved = await playSales(first, key)
    return { shown: `${moved.length} of the sales will be of yesterday`, value: moved }
  })
  const payments = await steps.step('Write the sales of yesterday and today', async () => {
    await first.stop()
    const database = await openDatabase({ dataDir })
    try {
      const filled = await fillSales(database, new Date(), terminals)
      await moveToYesterday(database, names)
      return { shown: `${filled.sales} sales`, value: filled.payments }
    } finally {
      await database.close()
    }
  })
  const service = await steps.step('Start the service again, with 50 flows', async () => {
    const again = await start()
    await tellSandbox(again, payments)
    await refuseCharges(again, key)
    return { shown: 'three boxes were refused a charge', value: again }
  })
  await closeDays(service, key, steps)
  return { service, key: key.key }
}

async function closeDays(service: ServiceProcess, key: ChainKey, steps: Steps): Promise<void> {
  await steps.step('Close days of some stores, sign yesterday', async () => {
    const now = new Date()
    const opened = await openClosings(service, key, now)
    const signed = await signYesterday(service, key, now)
    return {
      shown: `${opened} closings opened, ${signed} of ${daysOf(now).yesterday.day} signed`,
      value: undefined,
    }
  })
}
