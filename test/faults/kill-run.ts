import { setTimeout as wait } from 'node:timers/promises'
import type { RealProcess } from '../process/real-process.ts'
import { cloneTemplate, createPostgresTemplate, urlOf } from '../support/postgres-template.ts'
import { compareWithProvider } from './compare-with-provider.ts'
import { createDraw } from './draw.ts'
import {
  type KillOperation,
  type KillPoints,
  type KillStep,
  killOperations,
  killSteps,
  openKillPoints,
} from './kill-points.ts'
import { sell } from './persistent-sale.ts'
import { openProcessTestbed, untilQuiet } from './process-testbed.ts'
import type { SimulatedTill } from './simulated-till.ts'

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

/** Enough tills to continue while some wait until the lease of the dead process ends. */
const tillCount = 16
/** Longest wait for the first finished sale after a start. */
const progressMs = 15_000
/** A step that is not reached within this time is replaced by a kill at once. */
const stepMs = 6_000
const randomly = 'at random'

const nameOf = (operation: KillOperation, step: KillStep) => `${operation}: ${step}`

/** All moments of a kill, each not reached yet. */
export function noKills(): Map<string, number> {
  const named = killOperations.flatMap((name) => killSteps.map((step) => nameOf(name, step)))
  return new Map([...named, randomly].map((name) => [name, 0]))
}

/**
 * Kills the real process with SIGKILL, again and again, while tills charge, cancel and refund; each time at a named step,
 * one after the other, or at a random moment that `seed` draws. Tills repeat requests without an answer. Afterwards all
 * is compared with the provider.
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
  const processes = await openProcessTestbed({
    databaseUrl,
    between: async (database, provider) => {
      points = await openKillPoints(database, provider)
      return points
    },
  })
  const byStep = noKills()
  const restartsMs: number[] = []
  const done = new AbortController()
  const tills: SimulatedTill[] = []
  let running: RealProcess | undefined
  try {
    running = await processes.start()
    for (let at = 0; at < tillCount; at += 1) tills.push(await processes.openTill(seed, at))
    // A process that ends by itself leaves its compiled modules: all later starts take half the time.
    running.child.kill('SIGTERM')
    await running.ended
    running = await processes.start()
    const selling = tills.map((till) => sell(till, done.signal, true))
    for (let kill = first; kill < first + kills; kill += 1) {
      await untilWorking(tills)
      const draw = createDraw(seed, 'kill', kill)
      const moment = await killOnce(points as KillPoints, running, draw, kill + seed - 1)
      byStep.set(moment, (byStep.get(moment) ?? 0) + 1)
      const killedAt = performance.now()
      running = await processes.start()
      restartsMs.push(performance.now() - killedAt)
    }
    done.abort()
    await Promise.all(selling)
    await untilQuiet(processes.database)
    await compareWithProvider(processes.testbed, tills)
  } finally {
    done.abort()
    running?.child.kill('SIGKILL')
    await running?.ended
    await points?.close()
    await processes.close()
    await template.remove()
  }
  const providerOrders = processes.sandbox.ledger().orders
  return {
    kills,
    byStep,
    problems: tills.flatMap((till) => till.problems.map((text) => `${till.shop.client}: ${text}`)),
    orders: providerOrders.length,
    charged: providerOrders.filter((providerOrder) => providerOrder.paid_amount !== null).length,
    refunds: providerOrders.reduce((sum, providerOrder) => sum + providerOrder.refunds.length, 0),
    restartsMs,
  }
}

/** Every eighth kill comes at a random moment, the others at the named steps in order. Reindexs the moment. */
async function killOnce(
  points: KillPoints,
  running: RealProcess,
  draw: ReturnType<typeof createDraw>,
  index: number,
): Promise<string> {
  const kill = async () => {
    running.child.kill('SIGKILL')
    await running.ended
  }
  if (index % 8 === 7) {
    await wait(draw.int('moment', 0, 600))
    await kill()
    return randomly
  }
  const named = index - Math.floor(index / 8)
  const step = killSteps[named % killSteps.length] as KillStep
  const operation = killOperations[
    Math.floor(named / killSteps.length) % killOperations.length
  ] as KillOperation
  const reached = new Promise<boolean>((resolve) => {
    points.planned = { step, operation, kill: () => kill().then(() => resolve(true)) }
  })
  const tooLate = new AbortController()
  const isReached = await Promise.race([
    reached,
    wait(stepMs, false, { signal: tooLate.signal }).catch(() => false),
  ])
  tooLate.abort()
  if (isReached) return nameOf(operation, step)
  // The step may be reached at this moment: then the process is dead already.
  points.planned = undefined
  await kill()
  return randomly
}

/** Waits until a till has finished a sale since the last start: kills without work in between prove nothing. */
async function untilWorking(tills: readonly SimulatedTill[]): Promise<void> {
  const finished = () => tills.map((till) => till.sales.length)
  const before = finished()
  const until = performance.now() + progressMs
  while (performance.now() < until) {
    if (finished().some((count, index) => count > (before[index] ?? 0))) return
    await wait(20)
  }
}
