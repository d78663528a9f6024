import { execFile } from 'node:child_process'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type CommandHelp, readNamed, readOptions } from '../../src/commands/run-command.ts'
import { copySource, type SourceCopy } from '../support/source-copy.ts'
import { type Mistake, mistakes } from './all.ts'

const help: CommandHelp = {
  usage: 'npm run mutations [-- --only NAME]',
  about:
    'Makes one mistake after the other in a copy of the source and runs the tests that must notice. What no test notices, what does not fit the source any more, and what fails without the mistake too, is an error.',
  options: [['--only NAME', 'mistakes whose name has this in it']],
  exitCodes: [
    [0, 'every mistake was noticed'],
    [1, 'at least one was not'],
    [2, 'the command line is wrong'],
  ],
  example: 'npm run mutations -- --only deleted',
}

type TestRun = {
  isLoaded: boolean
  failed: { file: string; title: string; fullName: string } | undefined
}

const values = readOptions(help, { only: { type: 'string' } })
const print = (line: string) => void process.stdout.write(`${line}\n`)
const run = promisify(execFile)

async function runTests(
  { folder }: SourceCopy,
  file: string,
  title: string | undefined,
): Promise<TestRun> {
  const report = join(folder, 'report.json')
  await rm(report, { force: true })
  const args = ['vitest', 'run', '--config', 'test/vitest.config.ts', '--bail', '1', file]
  const pattern = title?.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
  const more = ['--reporter', 'json', '--outputFile', report, ...(pattern ? ['-t', pattern] : [])]
  const env = { ...process.env, CI: '' }
  // A failed test ends the command with 1; the report tells everything.
  const output = await run('npx', [...args, ...more], { cwd: folder, env, timeout: 300_000 }).then(
    () => '',
    (error: { stderr?: string; message: string }) => error.stderr || error.message,
  )
  const text = await readFile(report, 'utf8').catch(() => {
    throw new Error(`${file} gave no report: ${output}`)
  })
  const { testResults } = JSON.parse(text) as {
    testResults: { assertionResults: { status: string; title: string; fullName: string }[] }[]
  }
  const results = testResults.flatMap(({ assertionResults }) => assertionResults)
  const failed = results.find(({ status }) => status === 'failed')
  return {
    isLoaded: results.some(({ status }) => status === 'failed' || status === 'passed'),
    failed: failed && { ...failed, file },
  }
}

/** What noticed the mistake; throws with the reason when nothing did. */
async function judge(copy: SourceCopy, mistake: Mistake): Promise<string> {
  const { name, changes, tests } = mistake
  const takeBack = await copy.plant(name, changes)
  let noticed: TestRun['failed']
  try {
    for (const [file, title] of tests) {
      const { isLoaded, failed } = await runTests(copy, file, title)
      if (!isLoaded) throw new Error(`${file} does not load, or has no such test`)
      noticed = failed
      if (noticed) break
    }
  } finally {
    await takeBack()
  }
  if (!noticed) throw new Error('no test noticed')
  const sound = await runTests(copy, noticed.file, noticed.title)
  if (!sound.isLoaded || sound.failed) throw new Error(`"${noticed.title}" fails without it too`)
  return `${noticed.file}: ${noticed.fullName}`
}

const chosen = readNamed('only', values.only, mistakes, (name, text) => name.includes(text))
const copy = await copySource()
let missed = 0
try {
  for (const mistake of chosen) {
    try {
      print(`noticed  ${mistake.name}\n           ${await judge(copy, mistake)}`)
    } catch (error) {
      missed += 1
      print(
        `MISSED   ${mistake.name}\n           ${error instanceof Error ? error.message : error}`,
      )
    }
  }
} finally {
  await copy.remove()
}
print(`${chosen.length - missed} of ${chosen.length} mistakes were noticed`)
process.exitCode = missed > 0 ? 1 : 0
