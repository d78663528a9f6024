import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Database } from '../../src/db/database.ts'
import { leaderLease } from '../../src/repositories/flows/leader-lease.ts'
import { type Chance, createChance } from './chance.ts'
import { type Crew, createCrew } from './crew.ts'
import { type Deeds, startDeeds } from './deeds.ts'
import { definitionOf } from './definition.ts'
import { openWorld, type World } from './flow-world.ts'
import { createHappened, type Happened, type Happening } from './kinds.ts'
import { targetsOf } from './lane.ts'
import { unexpected } from './log-judge.ts'
import { isRare, nameOf, type Place, placesOf } from './steps.ts'

export type RoundOptions = {
  /** PostgreSQL, and the same database to look into; or a folder with the embedded one, where one process lives at a time. */
  place: { databaseUrl: string; database: Database } | { dataDir: string }
  seed: number
  /** Flows that run side by side, each a run of its own: a kill hits them all, each at another place. */
  flows: number
  kills: number
  /** How long the flows may do nothing new on their way to rest; 180 s when absent. */
  restWithinMs?: number | undefined
}

export type RoundResult = {
  runs: number
  kills: number
  changes: number
  deliveries: number
  resent: number
  /** How often a process died at which step; `any time` for those that reached none in their life. */
  deaths: Map<string, number>
  happened: Happened
  /** Steps that some process came to. */
  passed: ReadonlySet<string>
  violations: string[]
}

/** How long a process works before it is led to where it dies. */
const longestWorkMs = 600
const longestLifeMs = 1_000
/** Without a common divisor with the count of places, so that neighbours in time are none in kind. */
const stride = 17
/** A step that is not reached by then is left for another life. */
const longestWaitMs = 4_000
/** Of what somebody has to do first. */
const longestWaitForDeedsMs = 10_000
const longestRestMs = 180_000
const changeEveryMs = 12
/** What a dead process had sent has arrived by then: it lies in this machine's own buffers. */
const lastWordsMs = 40
/** Flows that only a schedule polls are brought to their next time by the clock. */
const scheduleEveryMs = 2_000
const minuteMs = 60_000

/**
 * Some flows live through so many kills at steps that the seed decides, in one process or in two, while their sources
 * change and their targets misbehave. Then everything calms down, and source and target must come to agree.
 */
export async function runRound(options: RoundOptions): Promise<RoundResult> {
  const { seed, place, kills, flows } = options
  const chance = createChance(seed, 'round')
  const folder = await mkdtemp(join(tmpdir(), 'flow-faults-'))
  const flowsDir = await mkdtemp(join(folder, 'flows-'))
  const tablesUrl = 'databaseUrl' in place ? place.databaseUrl : undefined
  const { counts: happened, note } = createHappened()
  const world = await openWorld({ seed, flows, filesDir: folder, tablesUrl, note })
  for (const lane of world.lanes) {
    const isWhole = lane.play.second === 'there'
    const text = JSON.stringify(definitionOf(lane, world.places, isWhole))
    await writeFile(join(flowsDir, `${lane.name}.flow.yaml`), text)
  }
  const result: RoundResult = {
    ...{ runs: flows, kills: 0, changes: 0, deliveries: 0, resent: 0 },
    ...{ deaths: new Map(), happened, passed: new Set(), violations: [] },
  }
  let progress = 0
  let isCalm = false
  const changing = setInterval(() => {
    result.changes += 1
    const index = chance.whole(`flow of change ${result.changes}`, 0, world.lanes.length - 1)
    world.lanes[index]?.change(progress)
  }, changeEveryMs)
  const crew = createCrew({
    database: 'dataDir' in place ? { dataDir: place.dataDir } : { databaseUrl: place.databaseUrl },
    ...{ flowsDir, tablesUrl: tablesUrl ?? 'postgres://nobody@127.0.0.1:9/none' },
  })
  const deeds = startDeeds(
    {
      ...{ control: crew.control, places: world.places, flowsDir },
      isCalm: () => isCalm,
      progress: () => progress,
    },
    world.lanes,
  )
  let freezes = 0
  try {
    const processes = 'dataDir' in place ? 1 : chance.pick('processes', [1, 2, 2])
    for (let life = 1; life <= kills; life += 1) {
      progress = (life - 1) / kills
      await crew.fill(processes)
      if (chance.maybe(`clock ${life}`, 0.3)) {
        note('a clock was set')
        crew.setClock(chance.pick(`ahead ${life}`, clockStepsMs))
      }
      if (processes > 1 && 'database' in place && chance.maybe(`freeze ${life}`, 0.4)) {
        freezes += 1
        const isBeforeByte = await freezeLeader(world, crew, place.database, chance, life)
        if (isBeforeByte) note('a process stood still before the first byte of a request')
      }
      const step = await endLife(
        world,
        crew,
        chance,
        life,
        placeOf(placesOf('dataDir' in place), seed, life),
      )
      result.kills += 1
      result.deaths.set(step, (result.deaths.get(step) ?? 0) + 1)
      if ('database' in place) await giveBackLeases(place.database, crew.dead)
    }
    clearInterval(changing)
    isCalm = true
    world.calm()
    crew.setClock(0)
    await crew.fill(processes)
    result.violations.push(
      ...(await restless(world, crew, deeds, options.restWithinMs ?? longestRestMs)),
    )
  } finally {
    clearInterval(changing)
    await deeds.stop()
    await crew.end()
    await world.close()
    await rm(folder, { recursive: true })
  }
  result.passed = crew.passed
  result.violations.push(...unexpected(crew.errors, freezes > 0))
  for (const [what, happening] of told) {
    for (let count = crew.warnings.get(what) ?? 0; count > 0; count -= 1) note(happening)
  }
  for (const [where, { ledger }] of world.lanes.flatMap(targetsOf)) {
    result.deliveries += ledger.counts.acknowledged
    result.resent += ledger.counts.resent
    for (let count = ledger.counts.overtaken; count > 0; count -= 1) {
      note('a late request was overtaken by a newer one')
    }
    result.violations.push(...ledger.violations.map((what) => `${where}: ${what}`))
  }
  return result
}

/** What the service says in its log, and what that tells of a run. */
const told: readonly (readonly [string, Happening])[] = [
  ['delivery taken over by another process', 'a process stood still while another took over'],
  [
    'a late request may have arrived; the item is sent again',
    'what was sent under a lost claim was owed again',
  ],
]

/** Longer than the server lets a transaction stand idle. */
const longestLockMs = 90_000
/** Some of them are back where they were, some a day off. */
const clockStepsMs = [-60_000, 60_000, -86_400_000, 86_400_000, 0] as const
/** Until another process leads: half of a lease in which it sees nothing, a look, the time that it waits, and a busy machine. */
const frozenMs = 8_500

/**
 * Has the process that sends stand still for longer than its leases, while another takes over, and go on: either with a request on
 * its way, which arrives when the other one has sent what came after it, or before the first byte of one, which must not be sent
 * any more. Returns whether it was the latter.
 */
async function freezeLeader(
  world: World,
  crew: Crew,
  database: Database,
  chance: Chance,
  life: number,
): Promise<boolean> {
  await Promise.all(crew.members.map(({ child }) => child.polling.catch(() => undefined)))
  await wait(chance.whole(`work before frost ${life}`, 0, longestWorkMs))
  const leader = await leaderOf(database)
  const victim = crew.members.find(({ processId }) => processId === leader) ?? crew.members[0]
  if (!victim) throw new Error('no process runs')
  for (const { web, second } of world.lanes) {
    web.ledger.maySendOnceMore = true
    if (second) second.ledger.maySendOnceMore = true
  }
  const isBeforeByte =
    chance.maybe(`before the first byte ${life}`, 0.5) && (await victim.child.freezeAtRequest())
  // It stops itself in the other case: a second stop could take effect after it was woken.
  if (!isBeforeByte) {
    await world.onWay(victim.child.name)
    victim.child.freeze()
  }
  const letThrough = world.holdUp(victim.child.name)
  await giveBackLeases(database, [victim.processId])
  await wait(frozenMs)
  letThrough()
  // What was held up is done by then, and its answer waits.
  await wait(lastWordsMs)
  victim.child.wake()
  return isBeforeByte
}

/** The process that polls and delivers; undefined between two of them. */
async function leaderOf({ db }: Database): Promise<string | undefined> {
  const lease = await db
    .selectFrom('leases')
    .select('owner')
    .where('name', '=', leaderLease)
    .executeTakeFirst()
  return lease?.owner
}

/** Has one process die as the seed says; answers at which step it did. */
async function endLife(
  world: World,
  crew: Crew,
  chance: Chance,
  life: number,
  place: Place,
): Promise<string> {
  const victim = crew.members[chance.whole(`victim ${life}`, 0, crew.members.length - 1)]
  if (!victim) throw new Error('nobody is alive')
  const { child } = victim
  // Most die at work; some at their start, as everybody does who dies where what the dead had in hand is claimed.
  const isEarly = place.step === 'deliveries are claimed' || chance.maybe(`early ${life}`, 0.1)
  if (!isEarly) {
    await child.polling.catch(() => undefined)
    await wait(chance.whole(`work ${life}`, 0, longestWorkMs))
  }
  let left = isRare(place) ? 1 : chance.pick(`nth ${life}`, [1, 1, 1, 2, 3, 5, 8])
  if (place.moment) child.arm({ ...place, nth: left })
  else {
    world.onStep = (reached) => {
      if (reached === place.step) left -= 1
      if (left === 0) child.kill()
    }
  }
  const isTimed = chance.maybe(`timed ${life}`, 0.1)
  const waitMs = isRare(place) ? longestWaitForDeedsMs : longestWaitMs
  const lifeMs = isTimed ? chance.whole(`life ${life}`, 1, longestLifeMs) : waitMs
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
function placeOf(places: readonly Place[], seed: number, life: number): Place {
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
  crew: Crew,
  deeds: Deeds,
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
      crew.setClock(aheadMs)
    }
    const found = [
      ...world.behind(),
      ...deeds.open(),
      ...world.lanes
        .flatMap(targetsOf)
        .flatMap(([where, { ledger }]) => ledger.differences().map((what) => `${where}: ${what}`)),
      ...(await crew.findOwed()),
    ]
    if (found.length === 0) found.push(...(await sayInSync(world, crew)))
    if (found.length === 0) return []
    const before = advances
    advances = countAdvances(world)
    if (advances > before) until = performance.now() + withinMs
    if (performance.now() > until) {
      return [...found, ...(await pauses(crew)), ...(await histories(crew, found))]
    }
    await wait(50)
  }
}

/** Grows while what is owed arrives, however slow the machine is, and no longer once nothing new does. */
function countAdvances(world: World): number {
  return world.lanes.flatMap(targetsOf).reduce((sum, [, { ledger }]) => sum + ledger.advances, 0)
}

/** Which flows somebody or something has paused, for whoever looks why they do not come to rest. */
async function pauses(crew: Crew): Promise<string[]> {
  const answer = await crew.control('GET', '/flows')
  const { flows = [] } = (answer?.body ?? {}) as {
    flows?: { name: string; status?: { paused: boolean; reason: string | null } }[]
  }
  return flows.flatMap(({ name, status }) =>
    status?.paused ? [`${name}: paused: ${status.reason}`] : [],
  )
}

/** What the flow itself says of the items that do not come to rest. */
async function histories(crew: Crew, found: readonly string[]): Promise<string[]> {
  const items = found.flatMap((line) => {
    const [, lane, item] = /^(s\d+-\d+)(?:, \w+)?: (i\d+)\b/.exec(line) ?? []
    return lane && item ? [`/flow/${lane}/items/${item}`] : []
  })
  const answers = [...new Set(items)].map(async (path) => {
    const answer = await crew.control('GET', path)
    return `${path}: ${JSON.stringify(answer?.body)}`
  })
  return Promise.all(answers)
}

/** At rest whoever asks must be told so. */
async function sayInSync(world: World, crew: Crew): Promise<string[]> {
  const found: string[] = []
  for (const { name, truth } of world.lanes) {
    const [item] = truth.items()
    if (!item) continue
    const answer = await crew.control('GET', `/flow/${name}/items/${item.id}`)
    const { destinations = [] } = (answer?.body ?? {}) as {
      destinations?: { in_sync: boolean | null }[]
    }
    const isSaid = destinations.length > 0 && destinations.every((one) => one.in_sync === true)
    if (!isSaid) found.push(`${name}: ${item.id} is in sync, and that is not said`)
  }
  return found
}
