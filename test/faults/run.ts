import { setTimeout as wait } from 'node:timers/promises'
import { createDraw, type Draw } from './draw.ts'
import { planFaults } from './fault-plan.ts'
import type { Lane } from './lane.ts'
import { playSale } from './sale.ts'
import { judge } from './verdict.ts'
import type { World } from './world.ts'

export type RunResult = {
  seed: number
  schedules: number
  /** One text for each schedule that went wrong: what is wrong, its plan and its history. */
  failures: string[]
  orders: number
  charged: number
  refunds: number
  answers: number
  lost: number
}

const minute = 60_000

/**
 * Plays one schedule in each shop of the world at once, all drawn from `seed`: faults, buyers, cashiers, jumps of the
 * clock. Then the faults end, requests under way too, the sweepers get ten seconds, and the provider's books decide.
 */
export async function runSeed(world: World, seed: number): Promise<RunResult> {
  const draw = createDraw(seed)
  const bookStart = world.books().length
  const draws = world.shops.map((_, index) => createDraw(seed, index))
  const plans = world.shops.map((shop, index) => planFaults(draws[index] as Draw, shop.mpUserId))
  const lanes = world.shops.map((shop, index): Lane => {
    return {
      world,
      shop,
      draw: draws[index] as Draw,
      bookStart,
      sales: [],
      claims: [],
      problems: [],
      history: [],
      forced: new Set(),
      hasWebhooks: !plans[index]?.some((rule) => /missing|late$|reorder/.test(rule.kind)),
    }
  })
  await world.arm(plans.flat())
  await inStep(lanes, async (stage) => {
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
  const errors: string[] = []
  for (const service of world.services) {
    await service.inbox.idle()
    errors.push(...service.logLines.filter((line) => line.startsWith('{"level":"error"')))
    service.logLines.length = 0
    service.sleeps.length = 0
  }
  await judge(world, lanes)
  await clearTerminals(world)
  const books = world.books(bookStart)
  return {
    seed,
    schedules: lanes.length,
    failures: lanes.flatMap((lane, index) =>
      lane.problems.length === 0 ? [] : [describe(seed, index, lane, plans[index] ?? [], errors)],
    ),
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
async function inStep(lanes: Lane[], between: (stage: number) => Promise<void>): Promise<void> {
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
      await playSale(lane, pause).catch((error: unknown) => {
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

function describe(
  seed: number,
  index: number,
  lane: Lane,
  plan: object[],
  errors: string[],
): string {
  return [
    `seed ${seed}, shop ${index} (${lane.shop.client}):`,
    ...lane.problems.map((problem) => `  ! ${problem}`),
    ...plan.map((rule) => `  rule ${JSON.stringify(rule)}`),
    ...lane.history.map((line) => `  ${line}`),
    ...errors.map((line) => `  log, of all shops: ${line.trim()}`),
  ].join('\n')
}
