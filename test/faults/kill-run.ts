import { setTimeout as wait } from 'node:timers/promises'
import type { RealProcess } from '../process/real-process.ts'
import { cloneTemplate, createPostgresTemplate, urlOf } from '../support/postgres-template.ts'
import { createDraw } from './draw.ts'
import {
  type KillOperation,
  type KillPoints,
  type KillStep,
  killOperations,
  killSteps,
  openKillPoints,
} from './kill-points.ts'
import type { Lane } from './lane.ts'
import { sell } from './persistent-sale.ts'
import { openProcessWorld, untilQuiet } from './process-world.ts'
import { judge } from './verdict.ts'

export type KillResult = {
  kills: number
  /** Kills by their moment; those that came at no named step are `at random`. */
  byStep: Map<string, number>
  problems: string[]
  orders: number
  charged: number
  refunds: number
  /** Milliseconds from each kill until the new process answered. */
  restartsMs: number[]
}

/** So many that work goes on while those whose order was cut wait for the dead process's claim to end. */
const tills = 16
/** Longest wait for the tills to come on after a start. */
const progressMs = 15_000
/** A step that does not come within this time gives way to a kill at once. */
const trapMs = 6_000
const randomly = 'at random'

const nameOf = (operation: KillOperation, step: KillStep) => `${operation}: ${step}`

/** All moments of a kill, each not reached yet. */
export function noKills(): Map<string, number> {
  const named = killOperations.flatMap((name) => killSteps.map((step) => nameOf(name, step)))
  return new Map([...named, randomly].map((name) => [name, 0]))
}

/**
 * Kills the real process with SIGKILL, again and again, while tills charge, cancel and refund; each time at a named step,
 * every one in its turn, or at a random moment that `seed` draws. Tills repeat what got no answer, as tills do. In
 * the end the books decide.
 */
export async function runKills(
  serverUrl: string,
  kills: number,
  seed: number,
  first = 0,
): Promise<KillResult> {
  const template = await createPostgresTemplate(serverUrl)
  const databaseUrl = urlOf(serverUrl, await cloneTemplate(serverUrl, template.name))
  let points: KillPoints | undefined
  const shopping = await openProcessWorld({
    databaseUrl,
    between: async (database, provider) => {
      points = await openKillPoints(database, provider)
      return points
    },
  })
  const byStep = noKills()
  const restartsMs: number[] = []
  const done = new AbortController()
  const lanes: Lane[] = []
  let running: RealProcess | undefined
  try {
    running = await shopping.start()
    for (let at = 0; at < tills; at += 1) lanes.push(await shopping.openLane(seed, at))
    // One that ends by itself leaves its compiled modules behind: all later starts take half the time.
    running.child.kill('SIGTERM')
    await running.ended
    running = await shopping.start()
    const selling = lanes.map((lane) => sell(lane, done.signal, true))
    for (let kill = first; kill < first + kills; kill += 1) {
      await untilWorking(lanes)
      const draw = createDraw(seed, 'kill', kill)
      const moment = await killOnce(points as KillPoints, running, draw, kill + seed - 1)
      byStep.set(moment, (byStep.get(moment) ?? 0) + 1)
      const killedAt = performance.now()
      running = await shopping.start()
      restartsMs.push(performance.now() - killedAt)
    }
    done.abort()
    await Promise.all(selling)
    await untilQuiet(shopping.database)
    await judge(shopping.world, lanes)
  } finally {
    done.abort()
    running?.child.kill('SIGKILL')
    await running?.ended
    await points?.close()
    await shopping.close()
    await template.remove()
  }
  const books = shopping.sandbox.ledger().orders
  return {
    kills,
    byStep,
    problems: lanes.flatMap((lane) => lane.problems.map((text) => `${lane.shop.client}: ${text}`)),
    orders: books.length,
    charged: books.filter((book) => book.paid_amount !== null).length,
    refunds: books.reduce((sum, book) => sum + book.refunds.length, 0),
    restartsMs,
  }
}

/** Every eighth kill comes at a random moment, the others at the named steps in turn. Answers which it was. */
async function killOnce(
  points: KillPoints,
  running: RealProcess,
  draw: ReturnType<typeof createDraw>,
  turn: number,
): Promise<string> {
  const shoot = async () => {
    running.child.kill('SIGKILL')
    await running.ended
  }
  if (turn % 8 === 7) {
    await wait(draw.int('moment', 0, 600))
    await shoot()
    return randomly
  }
  const named = turn - Math.floor(turn / 8)
  const step = killSteps[named % killSteps.length] as KillStep
  const operation = killOperations[
    Math.floor(named / killSteps.length) % killOperations.length
  ] as KillOperation
  const trapped = new Promise<boolean>((resolve) => {
    points.trap = { step, operation, fire: () => shoot().then(() => resolve(true)) }
  })
  const tooLate = new AbortController()
  const came = await Promise.race([
    trapped,
    wait(trapMs, false, { signal: tooLate.signal }).catch(() => false),
  ])
  tooLate.abort()
  if (came) return nameOf(operation, step)
  // It may spring at this very moment: the process is dead then, and the trap says so.
  points.trap = undefined
  await shoot()
  return randomly
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
