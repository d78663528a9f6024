import { parseArgs } from 'node:util'
import { openDatabase } from '../../src/db/database.ts'
import {
  cloneTemplate,
  createPostgresTemplate,
  dropDatabase,
  urlOf,
} from '../support/postgres-template.ts'
import { type RoundResult, runRound } from './round.ts'
import { nameOf, places } from './steps.ts'

// Flows whose processes are killed at every step, against PostgreSQL: npm run flows:faults -- --runs 200 --seed 1
// A round of 20 runs shares its processes and has one seed; `--runs 20 --seed N` repeats it.

const runsPerRound = 20
const killsPerRound = 10

const say = (line: string) => void process.stdout.write(`${line}\n`)

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '200' },
    seed: { type: 'string', default: '1' },
  },
})
const runs = Number(values.runs)
const firstSeed = Number(values.seed)
const server = process.env.TEST_DATABASE_URL || process.env.DATABASE_URL
if (!Number.isInteger(runs) || runs < 1 || !Number.isInteger(firstSeed)) {
  say('usage: npm run flows:faults -- --runs 200 --seed 1')
  process.exitCode = 2
} else if (!server) {
  say(
    'flows:faults needs a PostgreSQL server in TEST_DATABASE_URL, with the right to make databases',
  )
  process.exitCode = 2
} else {
  process.exitCode = await runAll(server)
}

async function runAll(serverUrl: string): Promise<number> {
  const startedAt = performance.now()
  const seconds = () => ((performance.now() - startedAt) / 1_000).toFixed(0)
  const template = await createPostgresTemplate(serverUrl)
  const total = { runs: 0, kills: 0, freezes: 0, clocks: 0, changes: 0, deliveries: 0, resent: 0 }
  const deaths = new Map<string, number>()
  const failed: number[] = []
  let violations = 0
  try {
    for (let seed = firstSeed; total.runs < runs; seed += 1) {
      const result = await oneRound(serverUrl, template.name, seed, runs - total.runs)
      for (const name of Object.keys(total) as (keyof typeof total)[]) total[name] += result[name]
      for (const [step, count] of result.deaths) deaths.set(step, (deaths.get(step) ?? 0) + count)
      violations += result.violations.length
      for (const what of result.violations.slice(0, 20)) say(`seed ${seed}: ${what}`)
      if (result.violations.length > 0) failed.push(seed)
      say(
        `${total.runs} runs in ${seconds()} s: ${total.kills} kills, ${total.freezes} freezes, ` +
          `${total.clocks} clocks set, ${total.changes} changes, ` +
          `${total.deliveries} deliveries, ${total.resent} re-sends, ${violations} violations`,
      )
    }
  } finally {
    await template.remove()
  }
  for (const place of [...places.map(nameOf), 'any time']) {
    say(`  died ${String(deaths.get(place) ?? 0).padStart(3)} x ${place}`)
  }
  for (const seed of failed) {
    say(`again: npm run flows:faults -- --runs ${runsPerRound} --seed ${seed}`)
  }
  say(failed.length === 0 ? 'source and target agree' : `${failed.length} rounds failed`)
  return failed.length === 0 ? 0 : 1
}

async function oneRound(
  serverUrl: string,
  template: string,
  seed: number,
  most: number,
): Promise<RoundResult> {
  const name = await cloneTemplate(serverUrl, template)
  const databaseUrl = urlOf(serverUrl, name)
  const database = await openDatabase({ databaseUrl })
  try {
    const flows = Math.min(runsPerRound, most)
    return await runRound({ databaseUrl, database, seed, flows, kills: killsPerRound })
  } finally {
    await database.close()
    await dropDatabase(serverUrl, name)
  }
}
