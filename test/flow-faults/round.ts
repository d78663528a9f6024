import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Database } from '../../src/db/database.ts'
import { type Chance, createChance } from './chance.ts'
import { type Child, startChild } from './child-process.ts'
import { openWorld, type World } from './flow-world.ts'
import { nameOf, type Place, places } from './steps.ts'

export type RoundOptions = {
  databaseUrl: string
  /** The same database, to look into. */
  database: Database
  seed: number
  /** Flows that run side by side, each a run of its own: a kill hits them all, each at another place. */
  flows: number
  kills: number
}

export type RoundResult = {
  runs: number
  kills: number
  /** Processes that stood still while another took over. */
  freezes: number
  /** Clocks that were set, of all processes at once. */
  clocks: number
  /** How often a process died at which step; `any time` for those that reached none in their life. */
  deaths: Map<string, number>
  changes: number
  deliveries: number
  resent: number
  violations: string[]
}

/** How long a process works before it is led to where it dies. */
const longestWorkMs = 600
const longestLifeMs = 1_000
/** Without a common divisor with the count of places, so that neighbours in time are none in kind. */
const stride = 17
/** A step that is not reached by then is left for another life. */
const longestWaitMs = 4_000
const restWithinMs = 60_000
const changeEveryMs = 12
/** What a dead process had sent has arrived by then: it lies in this machine's own buffers. */
const lastWordsMs = 40

/**
 * Some flows live through so many kills at steps that the seed decides, in one process or in two, while their sources
 * change and their targets misbehave. Then everything calms down, and source and target must come to agree.
 */
export async function runRound(options: RoundOptions): Promise<RoundResult> {
  const { seed, database, databaseUrl, kills } = options
  const chance = createChance(seed, 'round')
  const names = Array.from({ length: options.flows }, (_, index) => `s${seed}-${index}`)
  const world = await openWorld(seed, names)
  const flowsDir = await mkdtemp(join(tmpdir(), 'flow-faults-'))
  for (const { name, definition } of world.flows) {
    await writeFile(join(flowsDir, `${name}.flow.yaml`), JSON.stringify(definition(world.url)))
  }
  const result: RoundResult = {
    runs: options.flows,
    kills: 0,
    freezes: 0,
    clocks: 0,
    deaths: new Map(),
    changes: 0,
    deliveries: 0,
    resent: 0,
    violations: [],
  }
  let progress = 0
  const changing = setInterval(() => {
    result.changes += 1
    const index = chance.whole(`flow of change ${result.changes}`, 0, world.flows.length - 1)
    world.flows[index]?.change(progress)
  }, changeEveryMs)
  const crew = createCrew({ databaseUrl, flowsDir })
  try {
    const processes = chance.pick('processes', [1, 1, 2])
    for (let life = 1; life <= kills; life += 1) {
      progress = (life - 1) / kills
      await crew.fill(processes)
      if (chance.maybe(`clock ${life}`, 0.3)) {
        result.clocks += 1
        crew.setClock(chance.pick(`ahead ${life}`, clockStepsMs))
      }
      if (processes > 1 && chance.maybe(`freeze ${life}`, 0.4)) {
        result.freezes += 1
        await freezeOne(world, crew, database, chance, life)
      }
      const step = await endLife(world, crew, chance, seed, life)
      result.kills += 1
      result.deaths.set(step, (result.deaths.get(step) ?? 0) + 1)
      await giveBackLeases(database, crew.dead)
    }
    clearInterval(changing)
    world.calm()
    crew.setClock(0)
    await crew.fill(processes)
    result.violations.push(...(await restless(world, database, names)))
    result.violations.push(...unexpected(crew.errors, result.freezes > 0))
  } finally {
    clearInterval(changing)
    await crew.end()
    await world.close()
    await rm(flowsDir, { recursive: true })
  }
  for (const { name, ledger } of world.flows) {
    result.deliveries += ledger.counts.acknowledged
    result.resent += ledger.counts.resent
    result.violations.push(...ledger.violations.map((what) => `${name}: ${what}`))
  }
  return result
}

/** Longer than the server lets a transaction stand idle. */
const longestLockMs = 90_000
/** Some of them are back where they were, some a day off. */
const clockStepsMs = [-60_000, 60_000, -86_400_000, 86_400_000, 0] as const
/** Until another process has taken over: a third of a lease, and the time that it waits. */
const frozenMs = 6_500

/** Has a process stand still for longer than its leases, while another takes over, and go on. */
async function freezeOne(
  world: World,
  crew: Crew,
  database: Database,
  chance: Chance,
  life: number,
): Promise<void> {
  const victim = crew.members[chance.whole(`frozen ${life}`, 0, crew.members.length - 1)]
  if (!victim) throw new Error('nobody is alive')
  await Promise.all(crew.members.map(({ child }) => child.polling.catch(() => undefined)))
  await wait(chance.whole(`work before frost ${life}`, 0, longestWorkMs))
  for (const { ledger } of world.flows) ledger.maySendOnceMore = true
  victim.child.freeze()
  await giveBackLeases(database, [victim.processId])
  await wait(frozenMs)
  victim.child.wake()
}

type Member = { child: Child; processId: string }

/** The processes of a round: those that run, and one that has loaded already. */
function createCrew(where: { databaseUrl: string; flowsDir: string }) {
  let next = startChild()
  let aheadMs = 0
  const members: Member[] = []
  const dead: string[] = []
  const errors: string[] = []
  next.loaded.catch(() => undefined)
  return {
    members,
    /** Names under which processes that ended had their leases. */
    dead,
    errors,
    async fill(count: number) {
      while (members.length < count) {
        const child = next
        await child.loaded
        next = startChild()
        next.loaded.catch(() => undefined)
        members.push({ child, processId: await child.begin(where) })
        child.setClock(aheadMs)
      }
    },
    setClock(ms: number) {
      aheadMs = ms
      for (const { child } of members) child.setClock(ms)
    },
    async bury({ child, processId }: Member) {
      await child.ended
      members.splice(
        members.findIndex((member) => member.child === child),
        1,
      )
      dead.push(processId)
      errors.push(...child.errors)
    },
    async end() {
      for (const { child } of members) child.kill()
      next.kill()
      await Promise.all([next.ended, ...members.map(({ child }) => child.ended)])
      for (const { child } of members) errors.push(...child.errors)
    },
  }
}

type Crew = ReturnType<typeof createCrew>

/** Has one process die as the seed says; answers at which step it did. */
async function endLife(
  world: World,
  crew: Crew,
  chance: Chance,
  seed: number,
  life: number,
): Promise<string> {
  const victim = crew.members[chance.whole(`victim ${life}`, 0, crew.members.length - 1)]
  if (!victim) throw new Error('nobody is alive')
  const { child } = victim
  const place = placeOf(seed, life)
  // Most die at work; some at their start, as everybody does who dies where what the dead had in hand is claimed.
  const isEarly = place.step === 'deliveries are claimed' || chance.maybe(`early ${life}`, 0.1)
  if (!isEarly) {
    await child.polling.catch(() => undefined)
    await wait(chance.whole(`work ${life}`, 0, longestWorkMs))
  }
  let left = chance.pick(`nth ${life}`, [1, 1, 1, 2, 3, 5, 8])
  if (place.moment) child.arm({ ...place, nth: left })
  else {
    world.onStep = (reached) => {
      if (reached === place.step) left -= 1
      if (left === 0) child.kill()
    }
  }
  const isTimed = chance.maybe(`timed ${life}`, 0.2)
  const lifeMs = isTimed ? chance.whole(`life ${life}`, 1, longestLifeMs) : longestWaitMs
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    child.kill()
  }, lifeMs)
  await crew.bury(victim)
  clearTimeout(timer)
  world.onStep = () => undefined
  await wait(lastWordsMs)
  return isLate ? 'any time' : nameOf(place)
}

/** The places follow each other over lives and rounds, so that a few rounds come to all of them. */
function placeOf(seed: number, life: number): Place {
  const place = places[((seed * 10 + life) * stride) % places.length]
  if (!place) throw new Error('there is no such place')
  return place
}

/** As if the time had passed after which the leases of dead processes, or of one that stands still, are free. */
async function giveBackLeases(database: Database, owners: readonly string[]): Promise<void> {
  // Day by day off the clocks may be; what was given back stays so.
  const expired = sql`
    update leases set deadline = now() - interval '1 second'
    where owner = any(${owners}::text[]) and deadline > 'epoch'`
  for (const until = performance.now() + longestLockMs; ; ) {
    try {
      await expired.execute(database.db)
      return
    } catch (error) {
      // Who stands still in the middle of a transaction holds his rows until the server ends it.
      if (performance.now() > until) throw error
    }
  }
}

/** What keeps the flows from coming to rest; nothing when all is where it belongs. */
async function restless(
  world: World,
  database: Database,
  names: readonly string[],
): Promise<string[]> {
  const until = performance.now() + restWithinMs
  for (;;) {
    const found = [
      ...world.flows.flatMap(({ name, ledger }) =>
        ledger.differences().map((what) => `${name}: ${what}`),
      ),
      ...(await unsettled(database, names)),
    ]
    if (found.length === 0 || performance.now() > until) return found
    await wait(50)
  }
}

async function unsettled(database: Database, names: readonly string[]): Promise<string[]> {
  const owed = await sql<{ flow: string; pk: string; state: string }>`
    select flow, pk, state from deliveries
    where flow = any(${names}::text[])
      and (state <> 'done' or delivered_hash is distinct from hash or payload is not null)`.execute(
    database.db,
  )
  return owed.rows.map(({ flow, pk, state }) => `${flow}: ${pk} is ${state}, not delivered`)
}

/**
 * A poll may fail, since sources misbehave; nothing else may go wrong in a process that has its database. Beside one that stands
 * still in the middle of a transaction the others may wait for its rows with all their connections.
 */
function unexpected(lines: readonly string[], mayLackConnections: boolean): string[] {
  return lines.filter(
    (line) =>
      !line.includes('the poll of a flow failed') &&
      !(mayLackConnections && line.includes('DatabaseUnavailableError')),
  )
}
