import { setTimeout as wait } from 'node:timers/promises'
import { payByCard, sandboxCall } from '../support/till.ts'
import { type Aim, aimNames, aims } from './aims.ts'
import { createDraw, type Draw } from './draw.ts'
import { planFaults } from './fault-plan.ts'
import {
  buyer,
  type Lane,
  leaveTerminal,
  newLane,
  onTerminal,
  openSale,
  ordersOf,
  send,
} from './lane.ts'
import { playRestored } from './restored.ts'
import { type Pause, playSale, rememberCharge } from './sale.ts'
import { judge } from './verdict.ts'
import type { World } from './world.ts'

export type RunResult = {
  seed: string
  schedules: number
  /** One text for each schedule that went wrong: what is wrong, its plan and its history. */
  failures: string[]
  /** What each of them aimed at. */
  failedAims: string[]
  orders: number
  charged: number
  refunds: number
  answers: number
  lost: number
}

/** A seed by its name: a number, `a` and a number for schedules that aim, `b` and a number for a restored backup. */
export function runNamed(world: World, seed: string, only?: Aim): Promise<RunResult> {
  if (seed.startsWith('a')) return runAimed(world, Number(seed.slice(1)), only)
  if (seed.startsWith('b')) return runRestored(world, Number(seed.slice(1)))
  return runSeed(world, Number(seed))
}

const minute = 60_000

/**
 * Plays one schedule in each shop of the world at once, all drawn from `seed`: faults, buyers, cashiers, jumps of the
 * clock. Then the faults end, requests under way too, the sweepers get ten seconds, and the provider's books decide.
 */
async function runSeed(world: World, seed: number): Promise<RunResult> {
  const draw = createDraw(seed)
  const draws = world.shops.map((_, index) => createDraw(seed, index))
  const plans = world.shops.map((shop, index) => planFaults(draws[index] as Draw, shop.mpUserId))
  const bookStart = world.books().length
  const lanes = world.shops.map((shop, index) => {
    const hasWebhooks = !plans[index]?.some((rule) => /missing|late$|reorder/.test(rule.kind))
    const lane = newLane({ world, shop, draw: draws[index] as Draw, bookStart, hasWebhooks })
    for (const rule of plans[index] ?? []) lane.history.push(`rule ${JSON.stringify(rule)}`)
    return lane
  })
  await world.arm(plans.flat())
  await inStep(lanes, playSale, async (stage) => {
    const jump = draw.weigh(`jump ${stage}`, {
      none: 4,
      seconds: 4,
      minutes: 2,
      expiry: 1,
      day: 0.3,
    })
    const jumpMs = {
      none: 0,
      seconds: 3_000,
      minutes: 2 * minute,
      expiry: 18 * minute,
      day: 25 * 60 * minute,
    }
    for (const lane of lanes) lane.history.push(`-- ${stage}: the clock jumps: ${jump}`)
    await world.sweepAfter(jumpMs[jump])
  })
  await world.arm([])
  await requestsEnd(world)
  for (let round = 0; round < 5; round += 1) await world.sweepAfter(2_000)
  return judged(world, lanes, String(seed))
}

/**
 * The same with schedules that aim at one moment each: each kind in one shop at
 * least, or `only` this one in all. What no shop can have for itself is drawn for all: terminals that fetch at once.
 */
async function runAimed(world: World, seed: number, only?: Aim): Promise<RunResult> {
  const draw = createDraw('aimed', seed)
  const bookStart = world.books().length
  const lanes = world.shops.map((shop, index) => {
    const own = createDraw('aimed', seed, index)
    const aim = only ?? (aimNames[(seed + index) % aimNames.length] as Aim)
    return newLane({ world, shop, draw: own, bookStart, aim })
  })
  const fetchMs = draw.maybe('fetched at once', 0.4) ? 1 : 0
  await setPace(world, fetchMs)
  for (const lane of lanes) lane.history.push(`aim: ${lane.aim}; fetched after ${fetchMs} ms`)
  await inStep(
    lanes,
    (lane, pause) => aims[lane.aim as Aim](lane, pause),
    async (stage) => {
      const jumpMs =
        1000 *
        Number(
          draw.weigh(`jump ${stage}`, { 1: 2, 3: 2, 6: 6, 12: 2, 70: 1, 1080: 0.4, 90000: 0.1 }),
        )
      for (const lane of lanes) lane.history.push(`-- ${stage}: ${jumpMs / 1000} s pass`)
      // What is on its way arrives in its time, and not with the end of a long jump.
      if (jumpMs > callsArriveMs) await world.passTime(callsArriveMs)
      await world.passTime(jumpMs)
      await payEagerly(lanes)
    },
  )
  await world.arm([])
  for (const lane of lanes) {
    await leaveTerminal(lane)
    for (const order of ordersOf(lane)) {
      for (const { id } of order.refunds.filter(({ status }) => status === 'processing')) {
        await buyer(lane, order, { do: 'end_refund', refund_id: String(id), as: 'failed' })
      }
    }
  }
  await requestsEnd(world)
  for (let round = 0; round < settlingRounds; round += 1) {
    await world.passTime(2_000)
    await payEagerly(lanes)
  }
  await freeBoxes(world, lanes)
  await setPace(world, 0)
  return judged(world, lanes, `a${seed}`)
}

/** The same schedule in every shop: a backup is restored in the midst of it. */
async function runRestored(world: World, seed: number): Promise<RunResult> {
  const bookStart = world.books().length
  const lanes = world.shops.map((shop, index) => {
    const draw = createDraw('restored', seed, index)
    return newLane({ world, shop, draw, bookStart, aim: 'a restored backup' })
  })
  try {
    await playRestored(world, lanes)
  } catch (error) {
    const text = error instanceof Error ? error.stack : String(error)
    lanes[0]?.problems.push(`the restore itself failed: ${text}`)
  }
  await requestsEnd(world)
  for (let round = 0; round < settlingRounds; round += 1) await world.passTime(2_000)
  await freeBoxes(world, lanes)
  return judged(world, lanes, `b${seed}`)
}

/** As long as a call may be on its way. */
const callsArriveMs = 9_000
/** Rounds of two seconds: that long, and the ten seconds after it. */
const settlingRounds = 10

async function setPace(world: World, fetchMs: number): Promise<void> {
  await sandboxCall(world.services[0], 'PUT', '/_sandbox/pace', { fetch_ms: fetchMs })
}

async function payEagerly(lanes: readonly Lane[]): Promise<void> {
  for (const lane of lanes) {
    const waiting = lane.isEager ? onTerminal(lane) : undefined
    if (waiting) await buyer(lane, waiting, payByCard)
  }
}

/** The customers walk away from the terminals; after that every box must sell again. */
async function freeBoxes(world: World, lanes: readonly Lane[]): Promise<void> {
  await clearTerminals(world)
  await webhooksArrive(world)
  await world.passTime(2_000)
  await Promise.all(
    lanes.map(async (lane) => {
      const sale = openSale(lane, `${lane.sales[0]?.reference}-next`, 12_345)
      const before = new Set(ordersOf(lane).map((order) => order.id))
      const body = { caja_id: 'CAJA-1', external_reference: sale.reference, amount: '123,45' }
      const answer = await send(lane, { label: 'next sale', path: '/orders', body })
      rememberCharge(sale, [answer], before, 'next sale')
      if (answer.kind === 'lost' || answer.status >= 300)
        lane.problems.push('the box sells no more')
    }),
  )
  await clearTerminals(world)
  await webhooksArrive(world)
  // A requested cancel is looked at again within a minute.
  await world.passTime(62_000)
}

/** Until the provider has told all that it has to tell, or three seconds of real time. */
async function webhooksArrive({ services: [{ sandbox }] }: World): Promise<void> {
  const until = Date.now() + 3_000
  while (sandbox.ledger().webhooks_pending > 0 && Date.now() < until) await wait(10)
}

/**
 * An error in the log that no trouble of provider or database explains, which every answer tells of anyway; and a renewal
 * that failed, since a connection that is lost after it is no fault of the service: its answer got lost on a starved machine.
 */
function isTelling(line: string): boolean {
  if (line.includes('"msg":"token renewal failed"')) return true
  return line.startsWith('{"level":"error"') && !/"(PROVIDER|SERVICE|Database)\w+"/.test(line)
}

async function judged(world: World, lanes: Lane[], seed: string): Promise<RunResult> {
  const errors: string[] = []
  for (const service of [...world.services, world.victim]) {
    await service.inbox.idle()
    errors.push(...service.logLines.filter(isTelling))
    service.logLines.length = 0
    service.sleeps.length = 0
  }
  await judge(world, lanes)
  await clearTerminals(world)
  // What one schedule broke must not be held against the next one.
  for (const [index, lane] of lanes.entries()) {
    if (lane.problems.length > 0) await world.replaceShop(index)
  }
  const books = world.books(lanes[0]?.bookStart)
  const failed = lanes.filter((lane) => lane.problems.length > 0)
  return {
    seed,
    schedules: lanes.length,
    failures: failed.map((lane) => describe(seed, lanes.indexOf(lane), lane, errors)),
    failedAims: failed.map((lane) => lane.aim ?? 'none'),
    orders: books.length,
    charged: books.filter((book) => book.paid_amount !== null).length,
    refunds: books.reduce((sum, book) => sum + book.refunds.length, 0),
    answers: sum(lanes, (lane) => lane.history.filter((line) => / -> \d/.test(line)).length),
    lost: sum(lanes, (lane) => lane.history.filter((line) => line.endsWith('no answer')).length),
  }
}

const sum = (lanes: Lane[], count: (lane: Lane) => number) =>
  lanes.reduce((total, lane) => total + count(lane), 0)

const patienceMs = 10_000

/**
 * A request that its till gave up goes on in the service until the provider's time is over, which is real time and not
 * the clock's. Its intent stays open for so long, and nobody else touches it.
 */
async function requestsEnd({ database: { db } }: World): Promise<void> {
  const until = performance.now() + patienceMs
  for (;;) {
    const charge = await db
      .selectFrom('orders')
      .select('id')
      .where('creation', '=', 'intent')
      .executeTakeFirst()
    const operation = await db
      .selectFrom('order_operations')
      .select('id')
      .where('state', '=', 'intent')
      .executeTakeFirst()
    if ((!charge && !operation) || performance.now() > until) return
    await wait(20)
  }
}

/** Runs all lanes; whenever every one of them pauses or is done, `between` runs and they go on together. */
async function inStep(
  lanes: Lane[],
  play: (lane: Lane, pause: Pause) => Promise<void>,
  between: (stage: number) => Promise<void>,
): Promise<void> {
  let waiting: (() => void)[] = []
  let running = lanes.length
  let stage = 0
  const settle = async () => {
    if (waiting.length < running || running === 0) return
    const released = waiting
    waiting = []
    stage += 1
    await between(stage)
    for (const release of released) release()
  }
  await Promise.all(
    lanes.map(async (lane) => {
      const pause = async () => {
        const released = new Promise<void>((resolve) => waiting.push(resolve))
        await Promise.all([released, settle()])
      }
      await play(lane, pause).catch((error: unknown) => {
        lane.problems.push(
          `the till itself failed: ${error instanceof Error ? error.stack : error}`,
        )
      })
      running -= 1
      await settle()
    }),
  )
}

/** The next run begins with free terminals. */
async function clearTerminals(world: World): Promise<void> {
  const [service] = world.services
  for (const order of world.books()) {
    if (order.status !== 'created' && order.status !== 'at_terminal') continue
    await fetch(`${service.sandbox.url}/_sandbox/orders/${order.id}/act`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ do: 'cancel', force: true }),
    })
  }
}

function describe(seed: string, index: number, lane: Lane, errors: string[]): string {
  return [
    `seed ${seed}, shop ${index} (${lane.shop.client}):`,
    ...lane.problems.map((problem) => `  ! ${problem}`),
    ...lane.history.map((line) => `  ${line}`),
    ...errors.map((line) => `  log, of all shops: ${line.trim()}`),
  ].join('\n')
}
