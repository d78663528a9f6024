import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type CommandHelp, readOptions, readWholeNumber } from '../../src/commands/run-command.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import { prepareData } from '../support/pglite-template.ts'
import {
  cloneTemplate,
  createPostgresTemplate,
  dropDatabase,
  noteAutovacuum,
  urlOf,
} from '../support/postgres-template.ts'
import { type RoundOptions, type RoundResult, runRound } from './round.ts'
import { ofSeveralProcesses, runEvents } from './scenario.ts'
import { killPointsOf, nameOf, stepsOf } from './steps.ts'

const help: CommandHelp = {
  usage: 'npm run flows:faults [-- options]',
  about:
    'Kills the processes of flows at every step, and compares source and target. A round of 20 runs shares its processes and has one seed; --runs 20 --seed N repeats it.',
  options: [
    ['--runs N', '200 without it'],
    ['--seed N', 'of the first round; 1 without it'],
    ['--kills N', 'in each round; 10 without it'],
    ['--rest S', 'seconds until source and target must agree; 180 without it'],
    ['--embedded', 'on embedded databases instead of the PostgreSQL of TEST_DATABASE_URL'],
    ['--until-failed', 'ends at the first round that fails'],
  ],
  exitCodes: [
    [0, 'source and target agree'],
    [1, 'they do not; a line says how to repeat it'],
    [2, 'the command line is wrong'],
  ],
  example: 'npm run flows:faults -- --runs 200 --seed 1',
}

const runsPerRound = 20
/** With this many runs every event and every step occurs. */
const enoughRuns = 200

const print = (line: string) => void process.stdout.write(`${line}\n`)

const values = readOptions(help, {
  runs: { type: 'string', default: '200' },
  seed: { type: 'string', default: '1' },
  kills: { type: 'string', default: '10' },
  rest: { type: 'string', default: '180' },
  embedded: { type: 'boolean', default: false },
  'until-failed': { type: 'boolean', default: false },
})
const runs = readWholeNumber('runs', values.runs, 1)
const firstSeed = readWholeNumber('seed', values.seed)
const kills = readWholeNumber('kills', values.kills)
const restWithinMs = readWholeNumber('rest', values.rest, 1) * 1_000
const server = process.env.TEST_DATABASE_URL || process.env.DATABASE_URL

if (values.embedded) process.exitCode = await runAll(onFolders)
else if (server) process.exitCode = await onPostgres(server)
else {
  print(
    'flows:faults needs a PostgreSQL server in TEST_DATABASE_URL, with the right to make databases, or --embedded',
  )
  process.exitCode = 2
}

type WithPlace = <T>(work: (place: RoundOptions['place']) => Promise<T>) => Promise<T>

async function onPostgres(serverUrl: string): Promise<number> {
  const note = await noteAutovacuum(serverUrl)
  if (note) print(note)
  const template = await createPostgresTemplate(serverUrl)
  try {
    return await runAll(async (work) => {
      const name = await cloneTemplate(serverUrl, template.name)
      const databaseUrl = urlOf(serverUrl, name)
      const database = await openDatabase({ databaseUrl })
      try {
        return await work({ databaseUrl, database })
      } finally {
        await database.close()
        await dropDatabase(serverUrl, name)
      }
    })
  } finally {
    await template.remove()
  }
}

async function onFolders<T>(work: (place: RoundOptions['place']) => Promise<T>): Promise<T> {
  const dataDir = await mkdtemp(join(tmpdir(), 'flow-faults-data-'))
  try {
    await prepareData(dataDir)
    return await work({ dataDir })
  } finally {
    await rm(dataDir, { recursive: true, force: true })
  }
}

async function runAll(withPlace: WithPlace): Promise<number> {
  const startedAt = performance.now()
  const seconds = () => ((performance.now() - startedAt) / 1_000).toFixed(0)
  const total = { runs: 0, kills: 0, changes: 0, deliveries: 0, resent: 0 }
  const killsByPoint = new Map<string, number>()
  const events = new Map<string, number>()
  const passed = new Set<string>()
  const failed: number[] = []
  let violations = 0
  for (let seed = firstSeed; total.runs < runs; seed += 1) {
    const flows = Math.min(runsPerRound, runs - total.runs)
    const result: RoundResult = await withPlace((place) =>
      runRound({ place, seed, flows, kills, restWithinMs }),
    )
    for (const name of Object.keys(total) as (keyof typeof total)[]) total[name] += result[name]
    add(killsByPoint, result.killsByPoint)
    add(events, result.events)
    for (const step of result.passed) passed.add(step)
    violations += result.violations.length
    for (const what of result.violations.slice(0, 20)) print(`seed ${seed}: ${what}`)
    if (result.violations.length > 0) failed.push(seed)
    print(
      `${total.runs} runs in ${seconds()} s: ${total.kills} kills, ${total.changes} changes, ` +
        `${total.deliveries} deliveries, ${total.resent} re-sends, ${violations} violations`,
    )
    if (values['until-failed'] && failed.length > 0) break
  }
  for (const point of [...killPointsOf(values.embedded).map(nameOf), 'any time']) {
    print(`  killed ${String(killsByPoint.get(point) ?? 0).padStart(3)} x ${point}`)
  }
  const expected = runEvents.filter((what) => !values.embedded || !ofSeveralProcesses.has(what))
  for (const what of expected) print(`  ${String(events.get(what) ?? 0).padStart(6)} x ${what}`)
  const unpassed = stepsOf(values.embedded).filter((step) => !passed.has(step))
  const never = [...expected.filter((what) => !events.get(what)), ...unpassed]
  for (const seed of failed) {
    const where = values.embedded ? ' --embedded' : ''
    print(`again: npm run flows:faults -- --runs ${runsPerRound} --seed ${seed}${where}`)
  }
  print(failed.length === 0 ? 'source and target agree' : `${failed.length} rounds failed`)
  for (const step of unpassed) print(`no process reached this step: ${step}`)
  if (total.runs < enoughRuns || never.length === 0) return failed.length === 0 ? 0 : 1
  print(`never happened, so not tested: ${never.join('; ')}`)
  return 1
}

function add(to: Map<string, number>, counts: ReadonlyMap<string, number>): void {
  for (const [what, count] of counts) to.set(what, (to.get(what) ?? 0) + count)
}
