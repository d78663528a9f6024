import type { AddressInfo } from 'node:net'
import { chainFlowFiles } from '../../demo/chain/chain-flows.ts'
import type { ChainKey, ChainService } from '../../demo/chain/chain-service.ts'
import { openClosings, signYesterday } from '../../demo/chain/close-days.ts'
import { fillSales, tellSandbox } from '../../demo/chain/fill-sales.ts'
import { connectChain, openStores } from '../../demo/chain/open-chain.ts'
import { moveToYesterday, playSales, refuseCharges } from '../../demo/chain/play-sales.ts'
import { startTarget, startTestFlows, type TestFlows } from './flows.ts'
import { adminToken, startTestService, type TestService } from './service.ts'

export type SeededChain = {
  service: TestService
  /** Its flows; undefined unless asked for. */
  flows: TestFlows | undefined
  /** Base address of the payment API. */
  url: string
  key: ChainKey
  stop(): Promise<void>
}

/** The chain that `npm run demo -- --chain` fills, in this process: 10 stores, 300 boxes, 9,000 sales of yesterday and today. */
export async function startSeededChain({
  closings = false,
  flows = false,
  service: given,
}: {
  closings?: boolean
  flows?: boolean
  /** A service of the caller's, which stays open at the end. */
  service?: TestService
} = {}): Promise<SeededChain> {
  const service = given ?? (await startTestService())
  service.clock.stayInOneDay(10 * 60_000)
  const url = service.app.server.listening
    ? `http://127.0.0.1:${(service.app.server.address() as AddressInfo).port}`
    : await service.app.listen({ host: '127.0.0.1', port: 0 })
  const place: ChainService = { url, sandboxUrl: service.sandbox.url, adminToken }
  const key = await connectChain(place)
  const terminals = await openStores(place, key)
  const names = await playSales(place, key)
  const { payments } = await fillSales(service.database, service.clock.now(), terminals)
  await moveToYesterday(service.database, names)
  await tellSandbox(place, payments)
  await refuseCharges(place, key)
  if (closings) {
    const now = service.clock.now()
    await openClosings(place, key, now)
    service.clock.advance(61_000)
    await service.paymentWatch.watchOnce()
    await signYesterday(place, key, now)
  }
  const target = flows ? await startTarget() : undefined
  const side = target && (await startFlows(service, target.url))
  return {
    service,
    flows: side,
    url,
    key,
    async stop() {
      await side?.stop()
      await target?.close()
      if (!given) await service.stop()
    },
  }
}

async function startFlows(service: TestService, targetUrl: string): Promise<TestFlows> {
  // `DIR` is the folder of what the test's flows read.
  const files = chainFlowFiles(targetUrl, `\${env:DIR}`)
  return startTestFlows({ service, files })
}
