import { setTimeout as wait } from 'node:timers/promises'
import { payByCard, sandboxCall } from '../support/till.ts'
import { compareWithProvider } from './compare-with-provider.ts'
import { createDraw, type Draw } from './draw.ts'
import { planFaults } from './fault-plan.ts'
import { playRestored } from './restored.ts'
import { type Pause, playSale, rememberCharge } from './sale.ts'
import { type ScenarioName, scenarioNames, scenarios } from './scenarios.ts'
import {
  buyer,
  leaveTerminal,
  newTill,
  onTerminal,
  openSale,
  ordersOf,
  type SimulatedTill,
  send,
} from './simulated-till.ts'
import type { Testbed } from './testbed.ts'

export type RunResult = {
  seed: string
  schedules: number
  /** One text for each schedule that failed: its problems, its plan and its history. */
  failures: string[]
  /** The scenario of each of them. */
  failedScenarios: string[]
  orders: number
  charged: number
  refunds: number
  answers: number
  lost: number
}

/** A seed by its name: a number, `a` and a number for scenarios, `b` and a number for a restored backup. */
export function runNamed(testbed: Testbed, seed: string, only?: ScenarioName): Promise<RunResult> {
  if (seed.startsWith('a')) return runScenarios(testbed, Number(seed.slice(1)), only)
  if (seed.startsWith('b')) return runRestored(testbed, Number(seed.slice(1)))
  return runSeed(testbed, Number(seed))
}

const minute = 60_000

/**
 * Plays one schedule in each shop of the testbed at once, all drawn from `seed`: faults, buyers, cashiers, jumps of the
 * clock. Then the faults and the open requests end, the sweepers get ten seconds, and all is compared with the provider.
 */
async function runSeed(testbed: Testbed, seed: number): Promise<RunResult> {
  const draw = createDraw(seed)
  const draws = testbed.shops.map((_, index) => createDraw(seed, index))
  const plans = testbed.shops.map((shop, index) => planFaults(draws[index] as Draw, shop.mpUserId))
  const firstOrder = testbed.providerOrders().length
  const tills = testbed.shops.map((shop, index) => {
    const hasWebhooks = !plans[index]?.some((rule) => /missing|late$|reorder/.test(rule.kind))
    const till = newTill({ testbed, shop, draw: draws[index] as Draw, firstOrder, hasWebhooks })
    for (const rule of plans[index] ?? []) till.history.push(`rule ${JSON.stringify(rule)}`)
    return till
  })
  await testbed.addFaults(plans.flat())
  await inStep(tills, playSale, async (stage) => {
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
    for (const till of tills) till.history.push(`-- ${stage}: the clock jumps: ${jump}`)
    await testbed.sweepAfter(jumpMs[jump])
  })
  await testbed.addFaults([])
  await requestsEnd(testbed)
  for (let round = 0; round < 5; round += 1) await testbed.sweepAfter(2_000)
  return finishRun(testbed, tills, String(seed))
}

/**
 * The same with scenarios: each of them in one shop at
 * least, or `only` this one in all. The pace of the terminals is drawn once for all shops.
 */
async function runScenarios(
  testbed: Testbed,
  seed: number,
  only?: ScenarioName,
): Promise<RunResult> {
  const draw = createDraw('aimed', seed)
  const firstOrder = testbed.providerOrders().length
  const tills = testbed.shops.map((shop, index) => {
    const own = createDraw('aimed', seed, index)
    const scenario = only ?? (scenarioNames[(seed + index) % scenarioNames.length] as ScenarioName)
    return newTill({ testbed, shop, draw: own, firstOrder, scenario })
  })
  const fetchMs = draw.maybe('fetched at once', 0.4) ? 1 : 0
  await setPace(testbed, fetchMs)
  for (const till of tills)
    till.history.push(`scenario: ${till.scenario}; fetched after ${fetchMs} ms`)
  await inStep(
    tills,
    (till, pause) => scenarios[till.scenario as ScenarioName](till, pause),
    async (stage) => {
      const jumpMs =
        1000 *
        Number(
          draw.weigh(`jump ${stage}`, { 1: 2, 3: 2, 6: 6, 12: 2, 70: 1, 1080: 0.4, 90000: 0.1 }),
        )
      for (const till of tills) till.history.push(`-- ${stage}: ${jumpMs / 1000} s pass`)
      // Calls under way arrive after their delay, not at the end of a long jump.
      if (jumpMs > callsArriveMs) await testbed.passTime(callsArriveMs)
      await testbed.passTime(jumpMs)
      await payEagerly(tills)
    },
  )
  await testbed.addFaults([])
  for (const till of tills) {
    await leaveTerminal(till)
    for (const order of ordersOf(till)) {
      for (const { id } of order.refunds.filter(({ status }) => status === 'processing')) {
        await buyer(till, order, { do: 'end_refund', refund_id: String(id), as: 'failed' })
      }
    }
  }
  await requestsEnd(testbed)
  for (let round = 0; round < settlingRounds; round += 1) {
    await testbed.passTime(2_000)
    await payEagerly(tills)
  }
  await freeBoxes(testbed, tills)
  await setPace(testbed, 0)
  return finishRun(testbed, tills, `a${seed}`)
}

/** The same schedule in every shop: a backup is restored during the schedule. */
async function runRestored(testbed: Testbed, seed: number): Promise<RunResult> {
  const firstOrder = testbed.providerOrders().length
  const tills = testbed.shops.map((shop, index) => {
    const draw = createDraw('restored', seed, index)
    return newTill({ testbed, shop, draw, firstOrder, scenario: 'a restored backup' })
  })
  try {
    await playRestored(testbed, tills)
  } catch (error) {
    const text = error instanceof Error ? error.stack : String(error)
    tills[0]?.problems.push(`the restore itself failed: ${text}`)
  }
  await requestsEnd(testbed)
  for (let round = 0; round < settlingRounds; round += 1) await testbed.passTime(2_000)
  await freeBoxes(testbed, tills)
  return finishRun(testbed, tills, `b${seed}`)
}

/** The longest time that a call may need to arrive. */
const callsArriveMs = 9_000
/** Rounds of two seconds: that time, and ten seconds more. */
const settlingRounds = 10

async function setPace(testbed: Testbed, fetchMs: number): Promise<void> {
  await sandboxCall(testbed.services[0], 'PUT', '/_sandbox/pace', { fetch_ms: fetchMs })
}

async function payEagerly(tills: readonly SimulatedTill[]): Promise<void> {
  for (const till of tills) {
    const waiting = till.isEager ? onTerminal(till) : undefined
    if (waiting) await buyer(till, waiting, payByCard)
  }
}

/** The customers walk away from the terminals; after that every box must sell again. */
async function freeBoxes(testbed: Testbed, tills: readonly SimulatedTill[]): Promise<void> {
  await clearTerminals(testbed)
  await webhooksArrive(testbed)
  await testbed.passTime(2_000)
  await Promise.all(
    tills.map(async (till) => {
      const sale = openSale(till, `${till.sales[0]?.reference}-next`, 12_345)
      const before = new Set(ordersOf(till).map((order) => order.id))
      const body = { caja_id: 'CAJA-1', external_reference: sale.reference, amount: '123,45' }
      const answer = await send(till, { label: 'next sale', path: '/orders', body })
      rememberCharge(sale, [answer], before, 'next sale')
      if (answer.kind === 'lost' || answer.status >= 300)
        till.problems.push('the box cannot charge any more')
    }),
  )
  await clearTerminals(testbed)
  await webhooksArrive(testbed)
  // The next status check of a requested cancel is within a minute.
  await testbed.passTime(62_000)
}

/** Waits until the provider has sent all webhooks, or for three seconds of real time. */
async function webhooksArrive({ services: [{ sandbox }] }: Testbed): Promise<void> {
  const until = Date.now() + 3_000
  while (sandbox.ledger().webhooks_pending > 0 && Date.now() < until) await wait(10)
}

/**
 * An error in the log that is no failure of provider or database (those are in the answers); and a failed renewal
 * of a token: on a slow machine its answer may be lost, and the connection lost after it is no bug of the service.
 */
function isUnexpectedError(line: string): boolean {
  if (line.includes('"msg":"token renewal failed"')) return true
  return line.startsWith('{"level":"error"') && !/"(PROVIDER|SERVICE|Database)\w+"/.test(line)
}

async function finishRun(
  testbed: Testbed,
  tills: SimulatedTill[],
  seed: string,
): Promise<RunResult> {
  const errors: string[] = []
  for (const service of [...testbed.services, testbed.interrupted]) {
    await service.inbox.idle()
    errors.push(...service.logLines.filter(isUnexpectedError))
    service.logLines.length = 0
    service.sleeps.length = 0
  }
  await compareWithProvider(testbed, tills)
  await clearTerminals(testbed)
  // A failed schedule must not affect the next one.
  for (const [index, till] of tills.entries()) {
    if (till.problems.length > 0) await testbed.replaceShop(index)
  }
  const providerOrders = testbed.providerOrders(tills[0]?.firstOrder)
  const failed = tills.filter((till) => till.problems.length > 0)
  return {
    seed,
    schedules: tills.length,
    failures: failed.map((till) => describe(seed, tills.indexOf(till), till, errors)),
    failedScenarios: failed.map((till) => till.scenario ?? 'none'),
    orders: providerOrders.length,
    charged: providerOrders.filter((providerOrder) => providerOrder.paid_amount !== null).length,
    refunds: providerOrders.reduce((sum, providerOrder) => sum + providerOrder.refunds.length, 0),
    answers: sum(tills, (till) => till.history.filter((line) => / -> \d/.test(line)).length),
    lost: sum(tills, (till) => till.history.filter((line) => line.endsWith('no answer')).length),
  }
}

const sum = (tills: SimulatedTill[], count: (till: SimulatedTill) => number) =>
  tills.reduce((total, till) => total + count(till), 0)

const longestRequestMs = 10_000

/**
 * A request whose till disconnected continues in the service until its call to the provider times out, in real time, not by
 * the clock. Its intent stays open until then, and no other process takes it.
 */
async function requestsEnd({ database: { db } }: Testbed): Promise<void> {
  const until = performance.now() + longestRequestMs
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

/** Runs all tills; whenever every one of them pauses or is done, `between` runs and they go on together. */
async function inStep(
  tills: SimulatedTill[],
  play: (till: SimulatedTill, pause: Pause) => Promise<void>,
  between: (stage: number) => Promise<void>,
): Promise<void> {
  let waiting: (() => void)[] = []
  let running = tills.length
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
    tills.map(async (till) => {
      const pause = async () => {
        const released = new Promise<void>((resolve) => waiting.push(resolve))
        await Promise.all([released, settle()])
      }
      await play(till, pause).catch((error: unknown) => {
        till.problems.push(
          `the till itself failed: ${error instanceof Error ? error.stack : error}`,
        )
      })
      running -= 1
      await settle()
    }),
  )
}

/** The next run begins with free terminals. */
async function clearTerminals(testbed: Testbed): Promise<void> {
  const [service] = testbed.services
  for (const order of testbed.providerOrders()) {
    if (order.status !== 'created' && order.status !== 'at_terminal') continue
    await fetch(`${service.sandbox.url}/_sandbox/orders/${order.id}/act`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ do: 'cancel', force: true }),
    })
  }
}

function describe(seed: string, index: number, till: SimulatedTill, errors: string[]): string {
  return [
    `seed ${seed}, shop ${index} (${till.shop.client}):`,
    ...till.problems.map((problem) => `  ! ${problem}`),
    ...till.history.map((line) => `  ${line}`),
    ...errors.map((line) => `  log, of all shops: ${line.trim()}`),
  ].join('\n')
}
