import { performance } from 'node:perf_hooks'
import {
  type CommandHelp,
  readName,
  readOptions,
  readWholeNumber,
} from '../../src/commands/run-command.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import { openEmbedded } from '../support/database.ts'
import {
  cloneTemplate,
  createPostgresTemplate,
  noteAutovacuum,
  urlOf,
} from '../support/postgres-template.ts'
import { closeKeptDatabases } from '../support/worker-database.ts'
import { runEvents } from './event-run.ts'
import { noKills, runKills } from './kill-run.ts'
import { runWithoutWebhooks } from './no-webhooks-run.ts'
import { openCluster } from './postgres-cluster.ts'
import { runRestarts } from './restart-run.ts'
import { runNamed } from './run.ts'
import { scenarioNames } from './scenarios.ts'
import { openTestbed, shopsAtOnce } from './testbed.ts'

/** Provider and database are made anew after this many seeds, so that a long run does not grow without limit. */
const seedsPerTestbed = 40
/** The same for kills; the comparison runs after each such part. */
const killsPerTestbed = 100

const help: CommandHelp = {
  usage: 'npm run faults [-- options]',
  about:
    'Plays schedules of faults against the payment side, on the embedded database or the PostgreSQL of TEST_DATABASE_URL, and compares its orders with those of the provider.',
  options: [
    ['--schedules N', 'plays this many schedules'],
    ['--seed N', 'the seed of the first one'],
    ['--scenarios N', 'plays this many schedules of the scenarios'],
    ['--only NAME', 'only this scenario'],
    ['--kind random|backup', 'schedules of this kind'],
    ['--until-failed', 'ends at the first schedule that fails'],
    ['--kills N', 'kills real processes this many times'],
    ['--restarts N', 'restarts the PostgreSQL server this many times'],
    ['--no-webhooks', 'tills charge while no webhook arrives'],
    ['--tills N', 'with --no-webhooks: how many tills; 50 without it'],
    ['--latency MS', 'with --no-webhooks: what each call to the provider takes'],
    ['--neighbour', 'with --no-webhooks: beside another account that is slow'],
    [
      '--events N',
      'writes this many events, which endpoints and consumers get; --kills of two processes meanwhile',
    ],
    ['--rate N', 'with --events: events a second; as fast as possible without it'],
  ],
  exitCodes: [
    [0, 'no difference from the provider'],
    [1, 'differences; each line names a seed'],
    [2, 'the command line is wrong'],
  ],
  example: 'npm run faults -- --schedules 300',
}

const values = readOptions(help, {
  schedules: { type: 'string' },
  scenarios: { type: 'string' },
  only: { type: 'string' },
  kind: { type: 'string' },
  'until-failed': { type: 'boolean' },
  seed: { type: 'string' },
  kills: { type: 'string' },
  restarts: { type: 'string' },
  'no-webhooks': { type: 'boolean' },
  tills: { type: 'string' },
  latency: { type: 'string' },
  neighbour: { type: 'boolean' },
  events: { type: 'string' },
  rate: { type: 'string' },
})

const kind = readName('kind', values.kind, ['random', 'backup'])
const scenario = readName('only', values.only, scenarioNames)

const numberOf = (
  name:
    | 'schedules'
    | 'scenarios'
    | 'seed'
    | 'kills'
    | 'restarts'
    | 'tills'
    | 'latency'
    | 'events'
    | 'rate',
  standard: number,
) => readWholeNumber(name, values[name] ?? String(standard))

const print = (line: string) => void process.stdout.write(`${line}\n`)

async function main(): Promise<number> {
  const serverUrl = process.env.TEST_DATABASE_URL
  // The restarts have a server of their own.
  const note = serverUrl && values.restarts === undefined && (await noteAutovacuum(serverUrl))
  if (note) print(note)
  if (values.events !== undefined) return sendEvents(numberOf('events', 0))
  if (values.kills !== undefined) return kill(numberOf('kills', 0))
  if (values.restarts !== undefined) return restart(numberOf('restarts', 0))
  if (values['no-webhooks']) return waitWithoutWebhooks()
  return runSchedules()
}

async function sendEvents(events: number): Promise<number> {
  const serverUrl = process.env.TEST_DATABASE_URL
  if (!serverUrl) {
    print('set TEST_DATABASE_URL: the processes that are killed need a PostgreSQL that is not')
    return 1
  }
  const kills = numberOf('kills', 0)
  const options = { events, kills, rate: numberOf('rate', 0), seed: numberOf('seed', 1) }
  const result = await runEvents(serverUrl, options)
  for (const problem of result.problems) print(`! ${problem}`)
  const seconds = (share: number) => {
    const all = result.latenciesMs
    return ((all[Math.ceil(all.length * share) - 1] ?? 0) / 1000).toFixed(2)
  }
  print(
    `${events} events, ${kills} kills, ${result.repeats} repeats, the last one ${(result.settledMs / 1000).toFixed(1)} s after it was written; from the change to ` +
      `the endpoint ${seconds(0.5)} s (p50), ${seconds(0.95)} s (p95), ${seconds(1)} s at most`,
  )
  print(
    result.problems.length === 0
      ? 'none lost, none out of order, repeats with the same id only'
      : `${result.problems.length} problems`,
  )
  return result.problems.length === 0 ? 0 : 1
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
    const count = Math.min(killsPerTestbed, kills - totals.kills)
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
    // The SQL that marks this step may have changed in the service.
    if (times === 0 && kills >= killsPerTestbed) problems.push(`nothing was killed at: ${step}`)
  }
  const sorted = restartsMs.toSorted((a, b) => a - b)
  print(
    `${totals.kills} kills: ${totals.orders} orders at the provider, ${totals.charged} charged, ` +
      `${totals.refunds} refunds; ready again after ` +
      `${(sorted[Math.floor(sorted.length / 2)] ?? 0).toFixed(0)} ms (median), ` +
      `${(sorted.at(-1) ?? 0).toFixed(0)} ms at most`,
  )
  print(summaryOf(problems))
  return problems.length === 0 ? 0 : 1
}

async function restart(restarts: number): Promise<number> {
  const seed = numberOf('seed', 1)
  const cluster = await openCluster().catch((error: unknown) => {
    print(`cannot start a PostgreSQL server: ${error instanceof Error ? error.message : error}`)
  })
  if (!cluster) return 1
  try {
    const result = await runRestarts(cluster, restarts, seed)
    for (const { mode, awayMs, backMs } of result.restarts) {
      print(
        `${mode}: down for ${awayMs.toFixed(0)} ms, the next new order ${backMs.toFixed(0)} ms later`,
      )
    }
    for (const problem of result.problems) print(`! ${problem}`)
    print(
      `${restarts} restarts of PostgreSQL in ${result.sales} sales: ${result.orders} orders at the provider, ` +
        `${result.charged} charged, ${result.refunds} refunds`,
    )
    print(summaryOf(result.problems))
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

const summaryOf = (problems: readonly string[]) =>
  problems.length === 0 ? 'no difference from the provider' : `${problems.length} problems`

/** Names of the seeds to run (runNamed). */
function chosenSeeds(): string[] {
  const { seed, scenarios } = values
  if (seed !== undefined) return seed.split(',')
  const first = (count: number, name: (at: number) => string) =>
    Array.from({ length: Math.ceil(count / shopsAtOnce) }, (_, at) => name(at + 1))
  // Every eighth of the scenarios restores a backup.
  const scenarioSeed = (at: number) => (at % 8 === 0 ? `b${at / 8}` : `a${at - Math.floor(at / 8)}`)
  if (scenarios !== undefined) {
    return first(numberOf('scenarios', 0), scenario === undefined ? scenarioSeed : (at) => `a${at}`)
  }
  const count = numberOf('schedules', 1_000)
  if (kind === 'random') return first(count, String)
  if (kind === 'backup') return first(count, (at) => `b${at}`)
  // Every fourth schedule plays a scenario.
  return first(count, (at) =>
    at % 4 === 0 ? scenarioSeed(at / 4) : String(at - Math.floor(at / 4)),
  )
}

async function runSchedules(): Promise<number> {
  const seeds = chosenSeeds()
  const totals = { schedules: 0, orders: 0, charged: 0, refunds: 0, answers: 0, lost: 0 }
  const failed: string[] = []
  // The schedules move what performance.now() measures.
  const startedAt = Date.now()
  for (let at = 0; at < seeds.length; at += seedsPerTestbed) {
    const { database, close, engine } = await newDatabase()
    const testbed = await openTestbed(database, shopsAtOnce)
    try {
      for (const seed of seeds.slice(at, at + seedsPerTestbed)) {
        const result = await runNamed(testbed, seed, scenario)
        for (const name of Object.keys(totals) as (keyof typeof totals)[]) {
          totals[name] += result[name]
        }
        failed.push(...result.failedScenarios)
        for (const failure of result.failures) print(failure)
        if (values['until-failed'] && failed.length > 0) break
      }
    } finally {
      await testbed.stop()
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
  for (const [scenario, all] of Map.groupBy(failed, (name) => name))
    print(`${all.length} failed: ${scenario}`)
  print(
    failed.length === 0 ? 'no difference from the provider' : `${failed.length} schedules failed`,
  )
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
