import { setTimeout as wait } from 'node:timers/promises'
import { request } from 'undici'
import type { RealProcess } from '../process/real-process.ts'
import { cloneTemplate, createPostgresTemplate, urlOf } from '../support/postgres-template.ts'
import { createStore, enrol, pairTerminal, payByCard, sandboxCall } from '../support/till.ts'
import { createDraw } from './draw.ts'
import { openProcessWorld } from './process-world.ts'

/** All in one account, which the sweeper spares more than several. */
const tills = 50
const boxes = Array.from({ length: tills }, (_, index) => `CAJA-${index + 1}`)
const longestMs = 60_000

/**
 * Fifty tills of one shop charge and wait with `?wait=30` while not one webhook arrives, with the sweeper's interval as
 * shipped. Answers, sorted, how many milliseconds after the provider each of them knew that its customer had paid.
 */
export async function runWithoutWebhooks(serverUrl: string, seed: number): Promise<number[]> {
  const template = await createPostgresTemplate(serverUrl)
  const databaseUrl = urlOf(serverUrl, await cloneTemplate(serverUrl, template.name))
  const shopping = await openProcessWorld({ databaseUrl, env: { SWEEP_INTERVAL_MS: '2000' } })
  const [service] = shopping.world.services
  const [url] = shopping.world.urls
  let running: RealProcess | undefined
  try {
    running = await shopping.start()
    await sandboxCall(service, 'PUT', '/_sandbox/faults', [{ path: '', kind: 'missing' }])
    const shop = await enrol(service, 'acme')
    await createStore(service, shop, { id: 'SUC-1', boxes })
    for (const box of boxes) await pairTerminal(service, shop, box)
    const headers = { 'x-api-token': shop.key, 'content-type': 'application/json' }
    const ask = async (path: string, body?: object) => {
      const answer = await request(url + path, {
        method: body ? 'POST' : 'GET',
        headers,
        ...(body && { body: JSON.stringify(body) }),
      })
      return (await answer.body.json()) as { order_id: string; version: number; status: string }
    }
    const draw = createDraw(seed, 'no webhooks')
    const serve = async (box: string) => {
      const body = { caja_id: box, external_reference: box, amount: '12,00' }
      let known = await ask('/orders', body)
      let paidAt = Number.POSITIVE_INFINITY
      const paying = wait(draw.int(box, 1_000, 10_000)).then(async () => {
        const { mp_order_id } = await shopping.database.db
          .selectFrom('orders')
          .select('mp_order_id')
          .where('id', '=', known.order_id)
          .executeTakeFirstOrThrow()
        paidAt = performance.now()
        await sandboxCall(service, 'POST', `/_sandbox/orders/${mp_order_id}/act`, payByCard)
      })
      const until = performance.now() + longestMs
      while (known.status !== 'processed' && performance.now() < until) {
        known = await ask(`/orders/${known.order_id}?wait=30&version=${known.version}`)
      }
      const knownAt = performance.now()
      await paying
      return Math.max(0, knownAt - paidAt)
    }
    return (await Promise.all(boxes.map(serve))).sort((a, b) => a - b)
  } finally {
    running?.child.kill('SIGKILL')
    await running?.ended
    await shopping.close()
    await template.remove()
  }
}
