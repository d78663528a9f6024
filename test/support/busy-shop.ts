import { expect } from 'vitest'
import { jsonFlow, startTarget, startTestFlows, type TestFlows } from './flows.ts'
import type { TestService } from './service.ts'
import { charge, createStore, enrol, pairTerminal, sandboxCall, type Till } from './till.ts'

export type BusyShop = {
  shop: Till
  side: TestFlows
  /** A charge on a box, whatever its result. */
  sell(box: string): ReturnType<typeof charge>
  stop(): Promise<void>
}

/** A shop of five boxes with many charges, and a flow whose destination answers 503 to all of its 40 items. */
export async function openBusyShop(service: TestService): Promise<BusyShop> {
  const target = await startTarget()
  target.answer(503)
  const side = await startTestFlows({
    service,
    files: {
      'articles.json': Array.from({ length: 40 }, (_, id) => ({ id: String(id), price: id })),
      'articles.flow.yaml': jsonFlow('articles', target.url, {
        startPaused: false,
        destinations: [
          {
            name: 'web',
            type: 'http',
            request: { method: 'PUT', url: `${target.url}/articles/{pk}` },
            retry: { attempts: 50, initial: '1s', max: '1s', jitter: 0 },
            breaker: { failures: 3, within: '1m', openFor: '10m' },
          },
        ],
      }),
    },
  })
  const shop = await enrol(service, 'Sabado')
  const boxes = ['CAJA-1', 'CAJA-2', 'CAJA-3', 'CAJA-4', 'CAJA-5']
  await createStore(service, shop, { id: 'SUC-1', boxes })
  let orders = 0
  return {
    shop,
    side,
    sell: (box) => charge(service, shop, { box, reference: `sale ${++orders}` }),
    async stop() {
      await side.stop()
      await target.close()
    },
  }
}

/** Three boxes refuse a charge, each for another cause. Returns the terminal that is STANDALONE. */
export async function refuseThreeBoxes(
  service: TestService,
  { shop, sell }: BusyShop,
): Promise<{ standalone: string }> {
  const standalone = await pairTerminal(service, shop, 'CAJA-1', 'STANDALONE')
  const held = await pairTerminal(service, shop, 'CAJA-3')
  await sandboxCall(service, 'POST', '/_sandbox/orders', {
    type: 'point',
    external_reference: 'from-the-panel',
    transactions: { payments: [{ amount: '10.00' }] },
    config: { point: { terminal_id: held } },
  })
  expect((await sell('CAJA-1')).json().code).toBe('TERMINAL_NOT_PDV')
  expect((await sell('CAJA-2')).json().code).toBe('TERMINAL_NOT_FOUND')
  expect((await sell('CAJA-3')).json().code).toBe('TERMINAL_BUSY')
  return { standalone }
}
