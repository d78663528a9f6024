import { execFile } from 'node:child_process'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Failure } from './judge.ts'
import type { Kind, NoticedBy } from './mistake.ts'

/** Schedules of a scenario until one must have failed. */
const mostSchedules = 100
/** Flows until one must have failed. With fewer, an event may be missing by chance. */
const mostRuns = 200
/** Those of one seed. */
const runsPerRound = 20
/** Shorter than in a run without mistakes, since most mistakes keep source and target from agreement. */
const restSeconds = 60
const longestTestsMs = 300_000

export type Checks = {
  [K in Kind]: (noticedBy: NonNullable<NoticedBy[K]>) => Promise<Failure | undefined>
}

/** What can notice a mistake in this folder with a copy of the source. */
export function createChecks(folder: string): Checks {
  /** Whether the rounds of a seed pass without a mistake; a round takes half a minute. */
  const passesBySeed = new Map<string, boolean>()
  return {
    async tests(tests) {
      for (const [file, title] of tests) {
        const failed = await findFailedTest(folder, file, title)
        if (!failed) continue
        return {
          what: `${file}: ${failed.fullName}`,
          passesAgain: async () => !(await findFailedTest(folder, file, failed.title)),
        }
      }
      return undefined
    },

    async faults(name) {
      const isKind = name === 'random' || name === 'backup'
      const which = isKind
        ? ['--schedules', String(mostSchedules), '--kind', name]
        : ['--scenarios', String(mostSchedules), '--only', name]
      const run = (...more: string[]) =>
        runScript(folder, 'test/faults/main.ts', [...which, ...more])
      const { code, output } = await run('--until-failed')
      if (code === 0) return undefined
      const seed = /^seed (\w+),/m.exec(output)?.[1]
      if (seed === undefined) throw new Error(`no schedule failed, but: ${lastLine(output)}`)
      return {
        what: `${name}: ${/^ {2}! (.*)/m.exec(output)?.[1] ?? `seed ${seed}`}`,
        passesAgain: async () => (await run('--seed', seed)).code === 0,
      }
    },

    async 'flow-faults'(expected) {
      const run = (runs: number, seed: string) =>
        runScript(folder, 'test/flow-faults/main.ts', [
          ...['--until-failed', '--rest', String(restSeconds)],
          ...['--runs', String(runs), '--seed', seed],
        ])
      const { code, output } = await run(mostRuns, '1')
      if (code === 0) return undefined
      const [violation, seed] = /^seed (\d+): .*/m.exec(output) ?? []
      if (code === 1 && seed !== undefined) {
        return {
          what: violation ?? '',
          passesAgain: async () => {
            const passes = passesBySeed.get(seed) ?? (await run(runsPerRound, seed)).code === 0
            passesBySeed.set(seed, passes)
            return passes
          },
        }
      }
      // Other events may be missing too; only the one that the mistake silences counts.
      if (code === 1 && countOf(expected, output) === 0) {
        return {
          what: `never happened: ${expected}`,
          passesAgain: async () => (countOf(expected, (await run(mostRuns, '1')).output) ?? 0) > 0,
        }
      }
      throw new Error(`no run had a violation, but: ${lastLine(output)}`)
    },
  }
}

type Result = { code: number; output: string }

/** Runs one of the scripts of the copy. */
function runScript(folder: string, script: string, args: string[]): Promise<Result> {
  return run(folder, process.execPath, [join(folder, script), ...args])
}

function run(cwd: string, file: string, args: string[], more: object = {}): Promise<Result> {
  return promisify(execFile)(file, args, { cwd, maxBuffer: 2 ** 30, ...more }).then(
    ({ stdout }) => ({ code: 0, output: stdout.trim() }),
    (error: { code: number; stdout: string; stderr: string }) => ({
      code: error.code,
      output: `${error.stdout}${error.stderr}`.trim(),
    }),
  )
}

/** The first test of the file that fails. */
async function findFailedTest(folder: string, file: string, title: string | undefined) {
  const report = join(folder, 'report.json')
  await rm(report, { force: true })
  const pattern = title?.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
  const args = [
    ...['vitest', 'run', '--config', 'test/vitest.config.ts', '--bail', '1', file],
    ...['--reporter', 'json', '--outputFile', report, ...(pattern ? ['-t', pattern] : [])],
  ]
  const env = { ...process.env, CI: '' }
  const { output } = await run(folder, 'npx', args, { env, timeout: longestTestsMs })
  const text = await readFile(report, 'utf8').catch(() => {
    throw new Error(`${file} gave no report: ${output}`)
  })
  const { testResults } = JSON.parse(text) as {
    testResults: { assertionResults: { status: string; title: string; fullName: string }[] }[]
  }
  const results = testResults.flatMap(({ assertionResults }) => assertionResults)
  if (!results.some(({ status }) => status === 'failed' || status === 'passed'))
    throw new Error(`${file} does not load, or has no such test`)
  return results.find(({ status }) => status === 'failed')
}

/** How often an event happened, by the list that a flow fault run prints at its end. */
function countOf(event: string, output: string): number | undefined {
  const line = output.split('\n').find((one) => one.endsWith(` x ${event}`))
  return line === undefined ? undefined : Number.parseInt(line, 10)
}

function lastLine(output: string): string {
  return output.slice(output.lastIndexOf('\n') + 1)
}
