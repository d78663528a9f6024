import { performance } from 'node:perf_hooks'
import { type CommandHelp, readOptions, readWholeNumber } from '../../src/commands/run-command.ts'
import { openDatabase } from '../../src/db/database.ts'
import { openEmbedded } from '../support/database.ts'
import { cloneTemplate, createPostgresTemplate, urlOf } from '../support/postgres-template.ts'
import { closeKeptDatabases } from '../support/worker-database.ts'
import type { Aim } from './aims.ts'
import { noKills, runKills } from './kill-run.ts'
import { runWithoutWebhooks } from './no-webhooks-run.ts'
import { runPlanted } from './planted.ts'
import { openCluster } from './postgres-cluster.ts'
import { runRestarts } from './restart-run.ts'
import { runNamed } from './run.ts'
import { openWorld, shopsAtOnce } from './world.ts'

/** A world forgets its provider's books and its database after this many seeds, so that no run grows without end. */
const seedsPerWorld = 40
/** The same for kills: what they cut is then judged while it is fresh. */
const killsPerWorld = 100

const help: CommandHelp = {
  usage: 'npm run faults [-- options]',
  about:
    'Plays schedules of faults against the payment side, on the embedded database or the PostgreSQL of TEST_DATABASE_URL, and compares its books with those of the provider.',
  options: [
    ['--schedules N', 'plays this many schedules'],
    ['--seed N', 'the seed of the first one'],
    ['--aimed N', 'this many schedules of each aim'],
    ['--only NAME', 'aims, or planted mistakes, whose name has this in it'],
    ['--kind NAME', 'schedules of this kind'],
    ['--until-failed', 'ends at the first schedule that fails'],
    ['--planted', 'puts mistakes back, and says which are noticed'],
    ['--kills N', 'kills real processes this many times'],
    ['--restarts N', 'restarts the PostgreSQL server this many times'],
    ['--no-webhooks', 'tills charge while no webhook arrives'],
    ['--tills N', 'with --no-webhooks: how many tills; 50 without it'],
    ['--latency MS', 'with --no-webhooks: what each call to the provider takes'],
    ['--neighbour', 'with --no-webhooks: beside another account that is slow'],
  ],
  exitCodes: [
    [0, 'the books agree'],
    [1, 'they do not; each line names a seed'],
    [2, 'the command line is wrong'],
  ],
  example: 'npm run faults -- --schedules 300',
}

const values = readOptions(help, {
  schedules: { type: 'string' },
  aimed: { type: 'string' },
  only: { type: 'string' },
  kind: { type: 'string' },
  planted: { type: 'boolean' },
  'until-failed': { type: 'boolean' },
  seed: { type: 'string' },
  kills: { type: 'string' },
  restarts: { type: 'string' },
  'no-webhooks': { type: 'boolean' },
  tills: { type: 'string' },
  latency: { type: 'string' },
  neighbour: { type: 'boolean' },
})

const numberOf = (
  name: 'schedules' | 'aimed' | 'seed' | 'kills' | 'restarts' | 'tills' | 'latency',
  standard: number,
) => readWholeNumber(name, values[name] ?? String(standard))

const print = (line: string) => void process.stdout.write(`${line}\n`)

async function main(): Promise<number> {
  if (values.kills !== undefined) return kill(numberOf('kills', 0))
  if (values.restarts !== undefined) return restart(numberOf('restarts', 0))
  if (values['no-webhooks']) return waitWithoutWebhooks()
  if (values.planted) return plantBugs()
  return runSchedules()
}

async function kill(kills: number): Promise<number> {
  const seed = numberOf('seed', 1)
  const serverUrl = process.env.TEST_DATABASE_URL
  if (!serverUrl) {
    print('set TEST_DATABASE_URL: the process that is killed needs a PostgreSQL that is not')
    return 1
  }
  const byStep = noKills()
  const totals = { kills: 0, orders: 0, charged: 0, refunds: 0 }
  const problems: string[] = []
  const restartsMs: number[] = []
  const startedAt = performance.now()
  while (totals.kills < kills) {
    const count = Math.min(killsPerWorld, kills - totals.kills)
    const result = await runKills(serverUrl, count, seed, totals.kills)
    for (const [step, times] of result.byStep) byStep.set(step, (byStep.get(step) ?? 0) + times)
    for (const name of Object.keys(totals) as (keyof typeof totals)[]) totals[name] += result[name]
    problems.push(...result.problems)
    for (const problem of result.problems) print(`! ${problem}`)
    restartsMs.push(...result.restartsMs)
    const seconds = (performance.now() - startedAt) / 1000
    print(
      `${totals.kills} kills in ${seconds.toFixed(0)} s (${(seconds / totals.kills).toFixed(1)} s each), ` +
        `${totals.orders} orders, ${problems.length} problems`,
    )
  }
  for (const [step, times] of byStep) {
    print(`${String(times).padStart(5)}  ${step}`)
    // A step that is looked for by words which the service no longer sends would be passed for ever.
    if (times === 0 && kills >= killsPerWorld) problems.push(`nothing was killed at: ${step}`)
  }
  const sorted = restartsMs.toSorted((a, b) => a - b)
  print(
    `${totals.kills} kills: ${totals.orders} orders at the provider, ${totals.charged} charged, ` +
      `${totals.refunds} refunds; ready again after ` +
      `${(sorted[Math.floor(sorted.length / 2)] ?? 0).toFixed(0)} ms (median), ` +
      `${(sorted.at(-1) ?? 0).toFixed(0)} ms at most`,
  )
  print(verdict(problems))
  return problems.length === 0 ? 0 : 1
}

async function restart(restarts: number): Promise<number> {
  const seed = numberOf('seed', 1)
  const cluster = await openCluster().catch((error: unknown) => {
    print(`no PostgreSQL of our own: ${error instanceof Error ? error.message : error}`)
  })
  if (!cluster) return 1
  try {
    const result = await runRestarts(cluster, restarts, seed)
    for (const { mode, awayMs, backMs } of result.restarts) {
      print(
        `${mode}: away for ${awayMs.toFixed(0)} ms, the next new order ${backMs.toFixed(0)} ms later`,
      )
    }
    for (const problem of result.problems) print(`! ${problem}`)
    print(
      `${restarts} restarts of PostgreSQL in ${result.sales} sales: ${result.orders} orders at the provider, ` +
        `${result.charged} charged, ${result.refunds} refunds`,
    )
    print(verdict(result.problems))
    return result.problems.length === 0 ? 0 : 1
  } finally {
    await cluster.remove()
  }
}

async function waitWithoutWebhooks(): Promise<number> {
  const serverUrl = process.env.TEST_DATABASE_URL
  if (!serverUrl) {
    print('set TEST_DATABASE_URL: the service runs on PostgreSQL')
    return 1
  }
  const knownMs = await runWithoutWebhooks(serverUrl, {
    tills: numberOf('tills', 50),
    latencyMs: numberOf('latency', 0),
    neighbour: values.neighbour ?? false,
    seed: numberOf('seed', 1),
  })
  const seconds = (share: number) =>
    ((knownMs[Math.ceil(knownMs.length * share) - 1] ?? 0) / 1000).toFixed(2)
  print(
    `${knownMs.length} waiting tills and no webhook: paid at the provider, known at the till after ` +
      `${seconds(0.5)} s (p50), ${seconds(0.99)} s (p99), ${seconds(1)} s at most`,
  )
  return (knownMs.at(-1) ?? 0) < 10_000 ? 0 : 1
}

const verdict = (problems: readonly string[]) =>
  problems.length === 0 ? 'the books agree' : `${problems.length} problems`

/** Names of the seeds to run (runNamed). */
function chosenSeeds(): string[] {
  const { seed, aimed, kind, only } = values
  if (seed !== undefined) return seed.split(',')
  const first = (count: number, name: (at: number) => string) =>
    Array.from({ length: Math.ceil(count / shopsAtOnce) }, (_, at) => name(at + 1))
  // Every eighth of those that aim at something restores a backup.
  const aimedAt = (at: number) => (at % 8 === 0 ? `b${at / 8}` : `a${at - Math.floor(at / 8)}`)
  if (aimed !== undefined) {
    return first(numberOf('aimed', 0), only === undefined ? aimedAt : (at) => `a${at}`)
  }
  const count = numberOf('schedules', 1_000)
  if (kind === 'random') return first(count, String)
  if (kind === 'backup') return first(count, (at) => `b${at}`)
  // Every fourth of all aims.
  return first(count, (at) => (at % 4 === 0 ? aimedAt(at / 4) : String(at - Math.floor(at / 4))))
}

/** Every bug that is planted must fail schedules. */
async function plantBugs(): Promise<number> {
  const results = await runPlanted(
    numberOf('schedules', 100),
    ({ name, seenBy, isSeen, line }) => {
      print(`${isSeen ? 'seen  ' : 'UNSEEN'}  ${name}\n        by ${seenBy}: ${line}`)
    },
    values.only,
  )
  const unseen = results.filter(({ isSeen }) => !isSeen)
  print(`${results.length} bugs planted, ${unseen.length} not seen`)
  return unseen.length === 0 ? 0 : 1
}

async function runSchedules(): Promise<number> {
  const seeds = chosenSeeds()
  const totals = { schedules: 0, orders: 0, charged: 0, refunds: 0, answers: 0, lost: 0 }
  const failed: string[] = []
  // The schedules move what performance.now() measures.
  const startedAt = Date.now()
  for (let at = 0; at < seeds.length; at += seedsPerWorld) {
    const { database, close, engine } = await newDatabase()
    const world = await openWorld(database, shopsAtOnce)
    try {
      for (const seed of seeds.slice(at, at + seedsPerWorld)) {
        const result = await runNamed(world, seed, values.only as Aim | undefined)
        for (const name of Object.keys(totals) as (keyof typeof totals)[]) {
          totals[name] += result[name]
        }
        failed.push(...result.failedAims)
        for (const failure of result.failures) print(failure)
        if (values['until-failed'] && failed.length > 0) break
      }
    } finally {
      await world.stop()
      await close()
    }
    const seconds = (Date.now() - startedAt) / 1000
    print(
      `${engine}: ${totals.schedules} schedules in ${seconds.toFixed(0)} s, ${failed.length} failed`,
    )
    if (values['until-failed'] && failed.length > 0) break
  }
  print(
    `${totals.schedules} schedules: ${totals.answers} answers, ${totals.lost} lost, ` +
      `${totals.orders} orders at the provider, ${totals.charged} charged, ${totals.refunds} refunds`,
  )
  for (const [aim, all] of Map.groupBy(failed, (name) => name))
    print(`${all.length} failed: ${aim}`)
  print(failed.length === 0 ? 'the books agree' : `${failed.length} schedules failed`)
  return failed.length === 0 ? 0 : 1
}

async function newDatabase() {
  const serverUrl = process.env.TEST_DATABASE_URL
  if (!serverUrl) {
    const database = await openEmbedded()
    return { database, engine: 'PGlite', close: () => database.close() }
  }
  const template = await createPostgresTemplate(serverUrl)
  const name = await cloneTemplate(serverUrl, template.name)
  const database = await openDatabase({ databaseUrl: urlOf(serverUrl, name) })
  const close = async () => {
    await database.close()
    await template.remove()
  }
  return { database, engine: 'PostgreSQL', close }
}

process.exitCode = await main()
await closeKeptDatabases()
