import {
  type CommandHelp,
  readName,
  readNamed,
  readOptions,
} from '../../src/commands/run-command.ts'
import { copySource } from '../support/source-copy.ts'
import { mistakes } from './all.ts'
import { createChecks } from './checks.ts'
import { judge } from './judge.ts'
import { type Kind, kinds, type Mistake } from './mistake.ts'

const help: CommandHelp = {
  usage: 'npm run mutations [-- options]',
  about:
    'Plants one mistake after the other in a copy of the source, and runs what must notice it: tests, fault schedules, or flow fault runs. A mistake that nothing notices, that does not fit the source any more, or whose failure also occurs without it, is an error.',
  options: [
    ['--only NAME', 'mistakes whose name has this in it'],
    ['--by KIND', `only this kind of check: ${kinds.join(', ')}`],
  ],
  exitCodes: [
    [0, 'every mistake was noticed'],
    [1, 'at least one was not'],
    [2, 'the command line is wrong, or flow fault runs have no PostgreSQL in TEST_DATABASE_URL'],
  ],
  example: 'npm run mutations -- --by faults --only refund',
}

const values = readOptions(help, { only: { type: 'string' }, by: { type: 'string' } })
const by = readName('by', values.by, kinds)
const kindsOf = ({ noticedBy }: Mistake) =>
  kinds.filter((kind) => noticedBy[kind] !== undefined && (by === undefined || by === kind))
const ofKind = mistakes.filter((mistake) => kindsOf(mistake).length > 0)
const chosen = readNamed('only', values.only, ofKind, (name, text) => name.includes(text))

const needsServer = chosen.some((mistake) => kindsOf(mistake).includes('flow-faults'))
if (needsServer && !process.env.TEST_DATABASE_URL) {
  process.stderr.write(
    'flow fault runs need a PostgreSQL server in TEST_DATABASE_URL; --by tests and --by faults need none\nsee --help\n',
  )
  process.exit(2)
}

const print = (line: string) => void process.stdout.write(`${line}\n`)
const copy = await copySource()
const checks = createChecks(copy.folder)

function checkOf<K extends Kind>(kind: K, { noticedBy }: Mistake) {
  return () => checks[kind](noticedBy[kind] as NonNullable<Mistake['noticedBy'][K]>)
}

let noticed = 0
let missed = 0
try {
  for (const mistake of chosen) {
    for (const kind of kindsOf(mistake)) {
      const { isNoticed, why } = await judge(copy, mistake, checkOf(kind, mistake))
      if (isNoticed) noticed += 1
      else missed += 1
      print(`${isNoticed ? 'noticed' : 'MISSED '}  ${mistake.name}\n         by ${kind}: ${why}`)
    }
  }
} finally {
  await copy.remove()
}
print(`${noticed} noticed, ${missed} missed`)
process.exitCode = missed > 0 ? 1 : 0
