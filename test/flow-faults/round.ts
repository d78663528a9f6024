import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Database } from '../../src/db/database.ts'
import { leaderLease } from '../../src/repositories/flows/leader-lease.ts'
import { type Actions, startActions } from './actions.ts'
import { type Chance, createChance } from './chance.ts'
import { type Child, lateRequest } from './child-process.ts'
import { definitionOf } from './definition.ts'
import { type ExternalSystems, openExternalSystems } from './external-systems.ts'
import { unexpected } from './log-check.ts'
import { createProcesses, type Processes } from './processes.ts'
import { createEventCounts, type EventCounts, type RunEvent } from './scenario.ts'
import { isRare, type KillPoint, killPointsOf, nameOf } from './steps.ts'
import { itemPathOf, type Receiver, type TestFlow, targetsOf } from './test-flow.ts'

export type RoundOptions = {
  /** PostgreSQL with a connection for the checks, or a folder with the embedded database, where one process runs at a time. */
  place: { databaseUrl: string; database: Database } | { dataDir: string }
  seed: number
  /** Flows that run side by side. Each is a run of its own: a kill ends the work of all, each at another point. */
  flows: number
  kills: number
  /** The longest time without progress until source and target must agree; 180 s when absent. */
  restWithinMs?: number | undefined
}

export type RoundResult = {
  runs: number
  kills: number
  changes: number
  deliveries: number
  resent: number
  /** The kills at each step; `any time` for processes that did not reach theirs. */
  killsByPoint: Map<string, number>
  events: EventCounts
  /** Steps that at least one process reached. */
  passed: ReadonlySet<string>
  violations: string[]
}

/** The longest time that a process works before its kill point is set. */
const longestWorkMs = 600
const longestTimedKillMs = 1_000
/** Without a common divisor with the count of kill points, so that consecutive kills are at different kinds of steps. */
const stride = 17
/** A process that has not reached its step by then is killed at any time. */
const longestWaitMs = 4_000
/** The same for a step that needs an action of an operator or ERP. */
const longestWaitForActionsMs = 10_000
const longestRestMs = 180_000
const changeEveryMs = 12
/** Requests of a killed process arrive within this time, from this machine's own buffers. */
const lastRequestsMs = 40
/** The clock is set ahead this often, so that flows with a schedule reach their next poll. */
const scheduleEveryMs = 2_000
const minuteMs = 60_000

/**
 * Runs some flows in one process or two, and kills processes at steps that the seed decides. Meanwhile sources change and targets
 * have faults. Then the faults end, and source and target must agree.
 */
export async function runRound(options: RoundOptions): Promise<RoundResult> {
  const { seed, place, kills, flows } = options
  const chance = createChance(seed, 'round')
  const folder = await mkdtemp(join(tmpdir(), 'flow-faults-'))
  const flowsDir = await mkdtemp(join(folder, 'flows-'))
  const tablesUrl = 'databaseUrl' in place ? place.databaseUrl : undefined
  const { counts: events, countEvent } = createEventCounts()
  const systems = await openExternalSystems({
    seed,
    flows,
    filesDir: folder,
    tablesUrl,
    countEvent,
  })
  for (const testFlow of systems.testFlows) {
    const isWhole = testFlow.scenario.second === 'there'
    const text = JSON.stringify(definitionOf(testFlow, systems.endpoints, isWhole))
    await writeFile(join(flowsDir, `${testFlow.name}.flow.yaml`), text)
  }
  const result: RoundResult = {
    ...{ runs: flows, kills: 0, changes: 0, deliveries: 0, resent: 0 },
    ...{ killsByPoint: new Map(), events, passed: new Set(), violations: [] },
  }
  let progress = 0
  let isFaultFree = false
  const changing = setInterval(() => {
    result.changes += 1
    const index = chance.whole(`flow of change ${result.changes}`, 0, systems.testFlows.length - 1)
    systems.testFlows[index]?.change(progress)
  }, changeEveryMs)
  const processes = createProcesses({
    database: 'dataDir' in place ? { dataDir: place.dataDir } : { databaseUrl: place.databaseUrl },
    ...{ flowsDir, tablesUrl: tablesUrl ?? 'postgres://nobody@127.0.0.1:9/none' },
  })
  const actions = startActions(
    {
      ...{ control: processes.control, endpoints: systems.endpoints, flowsDir },
      isFaultFree: () => isFaultFree,
      progress: () => progress,
    },
    systems.testFlows,
  )
  let suspensions = 0
  try {
    const processCount = 'dataDir' in place ? 1 : chance.pick('processes', [1, 2, 2])
    for (let kill = 1; kill <= kills; kill += 1) {
      progress = (kill - 1) / kills
      await processes.fill(processCount)
      if (chance.maybe(`clock ${kill}`, 0.3)) {
        countEvent('a clock was set')
        processes.setClock(chance.pick(`ahead ${kill}`, clockOffsetsMs))
      }
      if (processCount > 1 && 'database' in place && chance.maybe(`freeze ${kill}`, 0.4)) {
        suspensions += 1
        const isBeforeByte = await suspendLeader(systems, processes, place.database, chance, kill)
        if (isBeforeByte) countEvent('a process was suspended before the first byte of a request')
      }
      const step = await killProcess(
        systems,
        processes,
        chance,
        kill,
        killPointOf(killPointsOf('dataDir' in place), seed, kill),
      )
      result.kills += 1
      result.killsByPoint.set(step, (result.killsByPoint.get(step) ?? 0) + 1)
      if ('database' in place) await expireLeases(place.database, processes.endedIds)
    }
    clearInterval(changing)
    isFaultFree = true
    systems.stopFaults()
    processes.setClock(0)
    await processes.fill(processCount)
    result.violations.push(
      ...(await findDisagreements(
        systems,
        processes,
        actions,
        options.restWithinMs ?? longestRestMs,
      )),
    )
  } finally {
    clearInterval(changing)
    await actions.stop()
    await processes.end()
    await systems.close()
    await rm(folder, { recursive: true })
  }
  result.passed = processes.passed
  result.violations.push(...unexpected(processes.errors, suspensions > 0))
  for (const [message, event] of eventsOfWarnings) {
    for (let count = processes.warnings.get(message) ?? 0; count > 0; count -= 1) countEvent(event)
  }
  for (const [where, { ledger }] of systems.testFlows.flatMap(targetsOf)) {
    result.deliveries += ledger.counts.acknowledged
    result.resent += ledger.counts.resent
    for (let count = ledger.counts.overtaken; count > 0; count -= 1) {
      countEvent('a late request was overtaken by a newer one')
    }
    result.violations.push(...ledger.violations.map((what) => `${where}: ${what}`))
  }
  return result
}

/** Log messages of the service, and the event that each shows. */
const eventsOfWarnings: readonly (readonly [string, RunEvent])[] = [
  ['deliveries taken over by another process', 'a process was suspended while another took over'],
  [lateRequest, 'a delivery sent under an expired lease was requeued'],
]

/** Longer than the server keeps an idle transaction open. */
const longestLockMs = 90_000
/** 0 sets the clock right again. */
const clockOffsetsMs = [-60_000, 60_000, -86_400_000, 86_400_000, 0] as const
/** Until another process leads: half of a lease, a check of the lease, the waiting time, and a reserve for a busy machine. */
const suspendedMs = 8_500

/**
 * Suspends the process that sends for longer than its leases, while another takes over, and resumes it. Either it has a request in
 * transit, which arrives after newer ones of the other process. Or it has sent no byte of a request, and must not send it any more.
 * Returns whether it was the latter.
 */
async function suspendLeader(
  systems: ExternalSystems,
  processes: Processes,
  database: Database,
  chance: Chance,
  kill: number,
): Promise<boolean> {
  await Promise.all(processes.members.map(({ child }) => child.polling.catch(() => undefined)))
  await wait(chance.whole(`work before frost ${kill}`, 0, longestWorkMs))
  const leader = await leaderOf(database)
  const victim =
    processes.members.find(({ processId }) => processId === leader) ?? processes.members[0]
  if (!victim) throw new Error('no process runs')
  for (const [, { ledger }] of systems.testFlows.flatMap(receiversOf)) {
    ledger.maySendOnceMore = true
    ledger.overwritten.clear()
  }
  const isBeforeByte =
    chance.maybe(`before the first byte ${kill}`, 0.5) && (await victim.child.suspendAtRequest())
  // In the other case it stops itself. A second stop could take effect after it was resumed.
  if (!isBeforeByte) {
    await systems.waitForRequest(victim.child.name)
    victim.child.suspend()
  }
  const endDelay = systems.delayRequests(victim.child.name)
  await expireLeases(database, [victim.processId])
  await wait(suspendedMs)
  endDelay()
  // By then the target has applied the delayed request, and its answer waits.
  await wait(lastRequestsMs)
  victim.child.resume()
  await awaitReport(systems, victim.child)
  return isBeforeByte
}

/** Longer than a busy machine needs to continue a process that has lost its lease. */
const longestReportMs = 15_000

/**
 * Waits until a resumed process has had each item sent again whose newer content its late request overwrote. Only the sender of a
 * request knows of it: if it is killed before that, the old content stays until the item changes, as after each request of a
 * killed process that arrives late.
 */
async function awaitReport(systems: ExternalSystems, { sentAgain }: Child): Promise<void> {
  const unreported = () =>
    systems.testFlows
      .flatMap(receiversOf)
      .flatMap(([place, { ledger }]) =>
        [...ledger.overwritten].flatMap((pk) =>
          sentAgain.has(`${place}/${pk}`) ? [] : [{ ledger, pk }],
        ),
      )
  const until = performance.now() + longestReportMs
  while (unreported().length > 0 && performance.now() < until) await wait(5)
  for (const { ledger, pk } of unreported()) {
    ledger.violated(`${pk}: a late request overwrote it, and its sender does not send it again`)
  }
}

/** All targets of a flow, each with the names of flow and destination. */
function receiversOf({ name, web, second }: TestFlow): [string, Receiver][] {
  return [
    [`${name}/web`, web],
    ...(second ? [[`${name}/second`, second] as [string, Receiver]] : []),
  ]
}

/** The process that polls and delivers; undefined while there is none. */
async function leaderOf({ db }: Database): Promise<string | undefined> {
  const lease = await db
    .selectFrom('leases')
    .select('owner')
    .where('name', '=', leaderLease)
    .executeTakeFirst()
  return lease?.owner
}

/** Kills one process at the point that the seed decides; returns the name of that point. */
async function killProcess(
  systems: ExternalSystems,
  processes: Processes,
  chance: Chance,
  kill: number,
  point: KillPoint,
): Promise<string> {
  const victim = processes.members[chance.whole(`victim ${kill}`, 0, processes.members.length - 1)]
  if (!victim) throw new Error('no process runs')
  const { child } = victim
  // Most are killed at work, some at their start: only there the deliveries of killed processes are claimed.
  const isEarly = point.step === 'deliveries are claimed' || chance.maybe(`early ${kill}`, 0.1)
  if (!isEarly) {
    await child.polling.catch(() => undefined)
    await wait(chance.whole(`work ${kill}`, 0, longestWorkMs))
  }
  let left = isRare(point) ? 1 : chance.pick(`nth ${kill}`, [1, 1, 1, 2, 3, 5, 8])
  if (point.moment) child.arm({ ...point, nth: left })
  else {
    systems.onStep = (reached) => {
      if (reached === point.step) left -= 1
      if (left === 0) child.kill()
    }
  }
  const isTimed = chance.maybe(`timed ${kill}`, 0.1)
  const maxWaitMs = isRare(point) ? longestWaitForActionsMs : longestWaitMs
  const killAfterMs = isTimed ? chance.whole(`life ${kill}`, 1, longestTimedKillMs) : maxWaitMs
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    child.kill()
  }, killAfterMs)
  await processes.awaitEnd(victim)
  clearTimeout(timer)
  systems.onStep = () => undefined
  await wait(lastRequestsMs)
  return isLate ? 'any time' : nameOf(point)
}

/** Walks through the kill points over kills and rounds, so that a few rounds reach all of them. */
function killPointOf(points: readonly KillPoint[], seed: number, kill: number): KillPoint {
  const point = points[((seed * 10 + kill) * stride) % points.length]
  if (!point) throw new Error('there is no such kill point')
  return point
}

/** Ends the leases of killed or suspended processes at once, instead of after their time. */
async function expireLeases(database: Database, owners: readonly string[]): Promise<void> {
  // Clocks may be a day ahead, so every deadline counts but the one of a lease that was given back.
  const expired = sql`
    update leases set deadline = now() - interval '1 second'
    where owner = any(${owners}::text[]) and deadline > 'epoch'`
  for (const until = performance.now() + longestLockMs; ; ) {
    try {
      await expired.execute(database.db)
      return
    } catch (error) {
      // A process that is suspended in a transaction locks its rows until the server ends the transaction.
      if (performance.now() > until) throw error
    }
  }
}

/** Waits until source and target agree; returns what still differs when there is no progress for this long. */
async function findDisagreements(
  systems: ExternalSystems,
  processes: Processes,
  actions: Actions,
  withinMs: number,
): Promise<string[]> {
  let until = performance.now() + withinMs
  let advances = -1
  let laterAt = performance.now()
  let aheadMs = 0
  for (;;) {
    if (performance.now() >= laterAt) {
      laterAt += scheduleEveryMs
      aheadMs += minuteMs
      processes.setClock(aheadMs)
    }
    const found = [
      ...systems.unwritten(),
      ...actions.open(),
      ...systems.testFlows
        .flatMap(targetsOf)
        .flatMap(([where, { ledger }]) => ledger.differences().map((what) => `${where}: ${what}`)),
      ...(await processes.findOpenDeliveries()),
    ]
    if (found.length === 0) found.push(...(await findUnreportedSync(systems, processes)))
    if (found.length === 0) return []
    const before = advances
    advances = countAdvances(systems)
    if (advances > before) until = performance.now() + withinMs
    if (performance.now() > until) {
      return [...found, ...(await pauses(processes)), ...(await histories(processes, found))]
    }
    await wait(50)
  }
}

/** Grows while new deliveries arrive, however slow the machine is. */
function countAdvances(systems: ExternalSystems): number {
  return systems.testFlows
    .flatMap(targetsOf)
    .reduce((sum, [, { ledger }]) => sum + ledger.advances, 0)
}

/** The flows that are paused, as a hint to the cause of a failure. */
async function pauses(processes: Processes): Promise<string[]> {
  const answer = await processes.control('GET', '/flows')
  const { flows = [] } = (answer?.body ?? {}) as {
    flows?: { name: string; status?: { paused: boolean; reason: string | null } }[]
  }
  return flows.flatMap(({ name, status }) =>
    status?.paused ? [`${name}: paused: ${status.reason}`] : [],
  )
}

/** What the control API shows of the items that differ. */
async function histories(processes: Processes, found: readonly string[]): Promise<string[]> {
  const items = found.map(itemPathOf).filter((path) => path !== undefined)
  const answers = [...new Set(items)].map(async (path) => {
    const answer = await processes.control('GET', path)
    return `${path}: ${JSON.stringify(answer?.body)}`
  })
  return Promise.all(answers)
}

/** When source and target agree, the control API must report it. */
async function findUnreportedSync(
  systems: ExternalSystems,
  processes: Processes,
): Promise<string[]> {
  const found: string[] = []
  for (const { name, sourceHistory } of systems.testFlows) {
    const [item] = sourceHistory.items()
    if (!item) continue
    const answer = await processes.control('GET', `/flow/${name}/items/${item.id}`)
    const { destinations = [] } = (answer?.body ?? {}) as {
      destinations?: { in_sync: boolean | null }[]
    }
    const isReported = destinations.length > 0 && destinations.every((one) => one.in_sync === true)
    if (!isReported)
      found.push(`${name}: ${item.id} is in sync, and the service does not report it`)
  }
  return found
}
