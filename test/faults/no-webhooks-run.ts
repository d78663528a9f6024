import { setTimeout as wait } from 'node:timers/promises'
import { request } from 'undici'
import type { RealProcess } from '../process/real-process.ts'
import { cloneTemplate, createPostgresTemplate, urlOf } from '../support/postgres-template.ts'
import {
  createStore,
  enrolThroughApi,
  pairTerminal,
  payByCard,
  sandboxCall,
} from '../support/till.ts'
import { createDraw } from './draw.ts'
import { openProcessTestbed } from './process-testbed.ts'

const boxesPerStore = 50
const longestMs = 60_000
const neighbourBoxes = 20

export type WithoutWebhooks = {
  /** Tills of the shop, all in one account. */
  tills: number
  /** Milliseconds that the provider takes for each call about an order. */
  latencyMs: number
  /** Another account has open orders and sends more, and the provider answers none of its calls. */
  neighbour: boolean
  seed: number
}

const names = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${prefix}-${index + 1}`)

/**
 * Tills of one shop charge and wait with `?wait=30` while not one webhook arrives, with the sweeper's interval as
 * shipped. Returns, sorted, how many milliseconds after the payment at the provider each till got the answer `processed`.
 */
export async function runWithoutWebhooks(
  serverUrl: string,
  { tills, latencyMs, neighbour, seed }: WithoutWebhooks,
): Promise<number[]> {
  const template = await createPostgresTemplate(serverUrl)
  const databaseUrl = urlOf(serverUrl, await cloneTemplate(serverUrl, template.name))
  // All tills charge and wait at once, with one key, and on a fast machine within one second.
  const env = { SWEEP_INTERVAL_MS: '2000', RATE_LIMIT_PER_SECOND: '1000000' }
  const processes = await openProcessTestbed({ databaseUrl, env })
  const [service] = processes.testbed.services
  const [url] = processes.testbed.urls
  let running: RealProcess | undefined
  try {
    running = await processes.start()
    const noWebhooks = { path: '', kind: 'missing' }
    await sandboxCall(service, 'PUT', '/_sandbox/faults', [noWebhooks])
    const open = async (client: string, account: string, boxes: string[]) => {
      const shop = await enrolThroughApi(service, client, account)
      for (let at = 0; at < boxes.length; at += boxesPerStore) {
        const own = boxes.slice(at, at + boxesPerStore)
        await createStore(service, shop, { id: `SUC-${at}`, boxes: own })
      }
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
      const charge = (box: string) =>
        ask('/orders', { caja_id: box, external_reference: box, amount: '12,00' })
      return { mpUserId: shop.mpUserId, ask, charge }
    }
    const boxes = names('CAJA', tills)
    const { ask, charge } = await open('acme', '7700001', boxes)
    const faults: object[] = [noWebhooks]
    if (latencyMs > 0) faults.push({ path: '/v1/orders', kind: 'latency', delay_ms: latencyMs })
    const beside: Promise<unknown>[] = []
    if (neighbour) {
      const others = names('VECINO', neighbourBoxes)
      const hanging = await open('neighbour', '7700002', others)
      const answered = others.slice(0, neighbourBoxes / 2)
      for (const box of answered) await hanging.charge(box)
      faults.push({ path: '', user_id: hanging.mpUserId, kind: 'hang_before' })
      await sandboxCall(service, 'PUT', '/_sandbox/faults', faults)
      for (const box of others.slice(answered.length)) {
        beside.push(hanging.charge(box).catch(() => undefined))
      }
    } else {
      await sandboxCall(service, 'PUT', '/_sandbox/faults', faults)
    }
    const draw = createDraw(seed, 'no webhooks')
    const serve = async (box: string) => {
      let known = await charge(box)
      let paidAt = Number.POSITIVE_INFINITY
      const paying = wait(draw.int(box, 1_000, 10_000)).then(async () => {
        const { mp_order_id } = await processes.database.db
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
    const knownMs = await Promise.all(boxes.map(serve))
    running.child.kill('SIGKILL')
    await Promise.all(beside)
    return knownMs.sort((a, b) => a - b)
  } finally {
    running?.child.kill('SIGKILL')
    await running?.ended
    await processes.close()
    await template.remove()
  }
}
