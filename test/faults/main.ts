import { performance } from 'node:perf_hooks'
import { parseArgs } from 'node:util'
import { openDatabase } from '../../src/db/database.ts'
import { openPgliteClone } from '../support/database.ts'
import { cloneTemplate, createPostgresTemplate, urlOf } from '../support/postgres-template.ts'
import { runKills } from './kill-run.ts'
import { runSeed } from './run.ts'
import { openWorld, shopsAtOnce } from './world.ts'

/** A world forgets its provider's books and its database after this many seeds, so that no run grows without end. */
const seedsPerWorld = 40

const { values } = parseArgs({
  options: {
    schedules: { type: 'string' },
    seed: { type: 'string' },
    kills: { type: 'string' },
  },
})

const print = (line: string) => void process.stdout.write(`${line}\n`)

async function main(): Promise<number> {
  return values.kills === undefined ? runSchedules() : kill(Number(values.kills))
}

async function kill(kills: number): Promise<number> {
  const serverUrl = process.env.TEST_DATABASE_URL
  if (!serverUrl) {
    print('set TEST_DATABASE_URL: the process that is killed needs a PostgreSQL that is not')
    return 1
  }
  const result = await runKills(serverUrl, kills, Number(values.seed ?? 1))
  for (const [step, count] of result.byStep) print(`${String(count).padStart(5)}  ${step}`)
  for (const problem of result.problems) print(`! ${problem}`)
  const { restartsMs } = result
  const median = restartsMs[Math.floor(restartsMs.length / 2)] ?? 0
  print(
    `${kills} kills: ${result.orders} orders at the provider, ${result.charged} charged, ` +
      `${result.refunds} refunds; ready again after ${median.toFixed(0)} ms (median), ` +
      `${(restartsMs.at(-1) ?? 0).toFixed(0)} ms at most`,
  )
  print(result.problems.length === 0 ? 'the books agree' : `${result.problems.length} problems`)
  return result.problems.length === 0 ? 0 : 1
}

async function runSchedules(): Promise<number> {
  const seeds =
    values.seed === undefined
      ? Array.from(
          { length: Math.ceil(Number(values.schedules ?? 1_000) / shopsAtOnce) },
          (_, at) => at + 1,
        )
      : values.seed.split(',').map(Number)
  const totals = { schedules: 0, orders: 0, charged: 0, refunds: 0, answers: 0, lost: 0 }
  const failed: string[] = []
  const startedAt = performance.now()
  for (let at = 0; at < seeds.length; at += seedsPerWorld) {
    const { database, close, engine } = await newDatabase()
    const world = await openWorld(database, shopsAtOnce)
    try {
      for (const seed of seeds.slice(at, at + seedsPerWorld)) {
        const result = await runSeed(world, seed)
        for (const name of Object.keys(totals) as (keyof typeof totals)[]) {
          totals[name] += result[name]
        }
        failed.push(...result.failures)
        for (const failure of result.failures) print(failure)
      }
    } finally {
      await world.stop()
      await close()
    }
    const seconds = (performance.now() - startedAt) / 1000
    print(
      `${engine}: ${totals.schedules} schedules in ${seconds.toFixed(0)} s, ${failed.length} failed`,
    )
  }
  print(
    `${totals.schedules} schedules: ${totals.answers} answers, ${totals.lost} lost, ` +
      `${totals.orders} orders at the provider, ${totals.charged} charged, ${totals.refunds} refunds`,
  )
  print(failed.length === 0 ? 'the books agree' : `${failed.length} schedules failed`)
  return failed.length === 0 ? 0 : 1
}

async function newDatabase() {
  const serverUrl = process.env.TEST_DATABASE_URL
  if (!serverUrl) {
    const database = await openPgliteClone()
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
