import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { noteAutovacuum } from '../test/support/postgres-template.ts'

const folder = import.meta.dirname
const ending = '.bench.ts'
const names = readdirSync(folder)
  .filter((file) => file.endsWith(ending))
  .map((file) => file.slice(0, -ending.length))
  .sort()

const usage = `usage: npm run bench [-- ${names.join('|')} [options]]\n`
const help = `${usage}
Runs all benchmarks, or one with options of its own, which its --help names.

exit codes:
  0  it ran to its end
  1  it could not; the message says why
  2  the command line is wrong

example:
  npm run bench -- polls --items 200000
`

const [chosen, ...options] = process.argv.slice(2)
if (chosen === '--help' || chosen === '-h') process.stdout.write(help)
else if (chosen !== undefined && !names.includes(chosen)) {
  process.stderr.write(usage)
  process.exitCode = 2
} else {
  const server = process.env.DATABASE_URL || process.env.TEST_DATABASE_URL
  const note = server && (await noteAutovacuum(server))
  if (note) process.stdout.write(`${note}\n`)
  for (const name of chosen === undefined ? names : [chosen]) {
    // The Node that runs this: the one of the project, whichever the machine has.
    const { status } = spawnSync(process.execPath, [join(folder, name + ending), ...options], {
      stdio: 'inherit',
    })
    if (status !== 0) {
      process.exitCode = status ?? 1
      break
    }
  }
}
