import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { Agent } from 'undici'
import { openDatabase } from '../../src/db/database.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { freePort, type RealProcess, startService } from '../process/real-process.ts'
import { cloneTemplate, createPostgresTemplate, urlOf } from '../support/postgres-template.ts'
import { adminToken, type TestService } from '../support/service.ts'
import { openShop, payByCard } from '../support/till.ts'
import { createDraw } from './draw.ts'
import { type KillPoints, killOperations, killSteps, openKillPoints } from './kill-points.ts'
import { type Answer, buyer, type Lane, onTerminal, type Sale, send } from './lane.ts'
import { judge } from './verdict.ts'
import type { World } from './world.ts'

export type KillResult = {
  kills: number
  /** Kills by their moment; those that came at no named step are `at random`. */
  byStep: Map<string, number>
  problems: string[]
  orders: number
  charged: number
  refunds: number
  /** Milliseconds from each kill until the new process answered, sorted. */
  restartsMs: number[]
}

const tills = 3
/** Longest wait for the tills to come on after a start. */
const progressMs = 15_000
/** A step that does not come within this time gives way to a kill at once. */
const trapMs = 6_000
/** A claim of a dead process ends after seconds, its untouched operations are taken up after 45 s. */
const quietMs = 60_000

/**
 * Kills the real process with SIGKILL, again and again, while tills charge, cancel and refund; each time at the next
 * named step or at a random moment, which `seed` begins with. Tills repeat what got no answer, as tills do. In the end
 * the books decide.
 */
export async function runKills(
  serverUrl: string,
  kills: number,
  seed: number,
): Promise<KillResult> {
  const template = await createPostgresTemplate(serverUrl)
  const databaseUrl = urlOf(serverUrl, await cloneTemplate(serverUrl, template.name))
  const database = await openDatabase({ databaseUrl })
  const sandbox = await startSandbox({
    port: 0,
    pace: { fetchMs: 0, eventMs: 0 },
    webhookRetryMs: [200],
  })
  const points = await openKillPoints(databaseUrl, sandbox.url)
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  sandbox.setWebhookUrl(`${url}/webhooks`)
  const env = {
    PORT: String(port),
    SYNC_PORT: '0',
    DATABASE_URL: points.databaseUrl,
    PROVIDER: 'sandbox',
    MP_API_URL: points.providerUrl,
    MP_AUTH_URL: sandbox.url,
    ADMIN_TOKEN: adminToken,
    ENCRYPTION_KEYS: `k1:${randomBytes(32).toString('base64')}`,
    SWEEP_INTERVAL_MS: '200',
    POS_CREATE_DELAY_MS: '0',
    LOG_LEVEL: 'warn',
  }
  let running = await startService(env)
  const agent = new Agent({ connections: 32 })
  const service = overHttp(url, { database, sandbox })
  const world = {
    services: [service, service],
    urls: [url, url],
    agent,
    clock: { now: () => new Date() },
    database,
    books: (from = 0) => sandbox.ledger().orders.slice(from),
  } as unknown as World
  const lanes: Lane[] = []
  for (let index = 0; index < tills; index += 1) {
    const shop = await openShop(service, `shop ${index}`, String(7_600_000 + index))
    const draw = createDraw(seed, index)
    lanes.push({
      world,
      shop,
      draw,
      bookStart: 0,
      sales: [],
      claims: [],
      problems: [],
      history: [],
      forced: new Set(),
      hasWebhooks: true,
    })
  }
  const byStep = new Map<string, number>()
  const restartsMs: number[] = []
  const done = new AbortController()
  try {
    const selling = lanes.map((lane) => sell(lane, done.signal))
    for (let kill = 0; kill < kills; kill += 1) {
      await untilWorking(lanes)
      const step = await killOnce(points, running, createDraw(seed, 'kill', kill), kill + seed - 1)
      byStep.set(step, (byStep.get(step) ?? 0) + 1)
      const killedAt = performance.now()
      running = await startService(env)
      restartsMs.push(performance.now() - killedAt)
    }
    done.abort()
    await Promise.all(selling)
    await untilQuiet(world)
    await judge(world, lanes)
  } finally {
    done.abort()
    running.child.kill('SIGKILL')
    await running.ended
    await agent.destroy()
    await points.close()
    await sandbox.close()
    await database.close()
    await template.remove()
  }
  const books = sandbox.ledger().orders
  return {
    kills,
    byStep,
    problems: lanes.flatMap((lane) => lane.problems.map((text) => `${lane.shop.client}: ${text}`)),
    orders: books.length,
    charged: books.filter((book) => book.paid_amount !== null).length,
    refunds: books.reduce((sum, book) => sum + book.refunds.length, 0),
    restartsMs: restartsMs.toSorted((a, b) => a - b),
  }
}

/** Every fourth kill comes at a random moment, the others at the named steps in turn. Answers which it was. */
async function killOnce(
  points: KillPoints,
  running: RealProcess,
  draw: ReturnType<typeof createDraw>,
  kill: number,
): Promise<string> {
  const shoot = async () => {
    running.child.kill('SIGKILL')
    await running.ended
  }
  const step = killSteps[kill % killSteps.length] ?? killSteps[0]
  const operation = killOperations[Math.floor(kill / killSteps.length) % killOperations.length]
  if (kill % 4 === 3 || operation === undefined) {
    await wait(draw.int('moment', 0, 600))
    await shoot()
    return 'at random'
  }
  const trapped = new Promise<boolean>((resolve) => {
    points.trap = { step, operation, fire: () => shoot().then(() => resolve(true)) }
  })
  const tooLate = new AbortController()
  const came = await Promise.race([
    trapped,
    wait(trapMs, false, { signal: tooLate.signal }).catch(() => false),
  ])
  tooLate.abort()
  if (came) return `${operation}: ${step}`
  points.trap = undefined
  await shoot()
  return 'at random'
}

/** One sale after the other until told to stop; the one under way is finished. */
async function sell(lane: Lane, stop: AbortSignal): Promise<void> {
  for (let number = 0; !stop.aborted; number += 1) {
    await sellOnce(lane, number).catch((error: unknown) => {
      lane.problems.push(`the till itself failed: ${error instanceof Error ? error.stack : error}`)
    })
  }
}

/** Waits until the tills have come on since the last start: kills in a row would only show that nothing happens. */
async function untilWorking(lanes: readonly Lane[]): Promise<void> {
  const finished = () => lanes.map((lane) => lane.sales.length)
  const before = finished()
  const until = performance.now() + progressMs
  while (performance.now() < until) {
    if (finished().some((count, index) => count > (before[index] ?? 0))) return
    await wait(20)
  }
}

type Kind = 'pay' | 'pay and refund' | 'cancel'

async function sellOnce(lane: Lane, number: number): Promise<void> {
  const { draw } = lane
  const label = (name: string) => `sale ${number} ${name}`
  const sale: Sale = {
    reference: `K${lane.shop.mpUserId}-${number}`,
    amountCents: draw.int(label('amount'), 500, 90_000),
    lastOrderId: undefined,
    ordersByKey: new Map(),
    refunds: [],
    canceled: new Set(),
    cancelWished: new Set(),
  }
  lane.sales.push(sale)
  const key = draw.maybe(label('keyed'), 0.5) ? `${sale.reference}-charge` : undefined
  const amount = (sale.amountCents / 100).toFixed(2).replace('.', ',')
  const charged = await persist(lane, {
    label: label('charge'),
    path: '/orders',
    key,
    body: { caja_id: 'CAJA-1', external_reference: sale.reference, amount },
  })
  if (charged.status >= 300) {
    lane.problems.push(`${label('charge')} ended with ${charged.status} ${charged.body.code}`)
    return
  }
  const orderId = String(charged.body.order_id)
  if (key !== undefined) sale.ordersByKey.set(key, new Set([orderId]))
  const kind = draw.weigh<Kind>(label('kind'), { pay: 1, 'pay and refund': 3, cancel: 3 })
  if (kind === 'cancel') {
    const path = '/orders/cancel'
    const canceled = await persist(lane, {
      label: label('cancel'),
      path,
      body: { order_id: orderId },
    })
    if (canceled.status === 200) sale.canceled.add(orderId)
    else lane.problems.push(`${label('cancel')} ended with ${canceled.status}`)
    return
  }
  const waiting = onTerminal(lane)
  if (waiting) await buyer(lane, waiting, payByCard)
  const read = await persist(lane, { label: label('read'), path: `/orders/${orderId}` })
  if (read.body.status !== 'processed' || kind === 'pay') return
  const isPart = draw.maybe(label('in part'), 0.5)
  const amountCents = isPart ? Math.floor(sale.amountCents / 3) : null
  const refund = { orderId, amountCents, told: 'unknown' as 'done' | 'unknown' }
  sale.refunds.push(refund)
  const refunded = await persist(lane, {
    label: label('refund'),
    path: '/orders/refund',
    key: `${sale.reference}-refund`,
    body: {
      order_id: orderId,
      ...(amountCents !== null && { amount: (amountCents / 100).toFixed(2).replace('.', ',') }),
    },
  })
  if (refunded.status === 200) refund.told = 'done'
}

/** Longer than any outcome may take after a kill. */
const patienceMs = 90_000

/** Repeats a request until it is answered with anything but "unknown" or "try again". */
async function persist(
  lane: Lane,
  sending: Parameters<typeof send>[1],
): Promise<Extract<Answer, { kind: 'answered' }>> {
  const until = performance.now() + patienceMs
  for (;;) {
    const answer = await send(lane, sending)
    lane.history.length = 0
    const isOpen =
      answer.kind === 'lost' ||
      answer.body.outcome === 'unknown' ||
      (answer.status >= 400 && answer.body.retry_safe === true)
    const isAnswered = answer.kind === 'answered' && (answer.status < 300 || !isOpen)
    const isTired = performance.now() > until
    if (answer.kind === 'answered' && (isAnswered || isTired)) return answer
    if (isTired) return { kind: 'answered', status: 504, body: { code: 'no answer at all' } }
    await wait(50)
  }
}

/** Waits until nothing is open, at most as long as it may take. What then still is, the verdict names. */
async function untilQuiet(world: World): Promise<void> {
  const until = performance.now() + quietMs
  while (performance.now() < until) {
    const open = await world.database.db
      .selectFrom('orders')
      .select('id')
      .where('creation', 'in', ['intent', 'unknown'])
      .unionAll(
        world.database.db
          .selectFrom('order_operations')
          .select('id')
          .where('state', 'in', ['intent', 'unknown']),
      )
      .execute()
    if (open.length === 0) break
    await wait(200)
  }
  // One more round for what is confirmed but was not read again yet.
  await wait(3_000)
}

/** The little of a test service that the shop's preparations use, over the wire. */
function overHttp(url: string, parts: object): TestService {
  const inject = async (options: {
    method: string
    url: string
    headers: Record<string, string>
    payload?: object
  }) => {
    const response = await fetch(url + options.url, {
      method: options.method,
      redirect: 'manual',
      headers: {
        ...options.headers,
        ...(options.payload && { 'content-type': 'application/json' }),
      },
      ...(options.payload && { body: JSON.stringify(options.payload) }),
    })
    const body = await response.text()
    return {
      statusCode: response.status,
      headers: Object.fromEntries(response.headers),
      body,
      json: () => JSON.parse(body),
    }
  }
  return { ...parts, app: { inject } } as unknown as TestService
}
