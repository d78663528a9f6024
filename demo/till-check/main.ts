import { parseArgs } from 'node:util'
import { type CommandHelp, runCommand, say, UsageError } from '../../src/commands/run-command.ts'
import { OperatorError } from '../../src/errors/operator-error.ts'
import { type Case, cases } from './cases.ts'
import { openRecordedLine, type SentRequest } from './line.ts'
import { openStage, type Stage } from './stage.ts'
import { commandTill, personsTill } from './till.ts'

const help: CommandHelp = {
  usage: 'npm run till:check -- [--till "COMMAND"] [--only CASE,CASE] [--listen 127.0.0.1:3100]',
  about: `Plays the ten cases that a till must pass, against a service with its sandbox, and says what the till did wrong. Point the till at the address that --listen names: the command passes its requests on, and loses answers. It is the buyer, and ends every fault of the sandbox. Nothing else may charge meanwhile.
Without --till it says what to do at the till, and asks how the till ended. With it, it runs COMMAND and adds: charge TICKET AMOUNT, cancel TICKET, refund TICKET [AMOUNT], or resume. COMMAND finds the address in TILLBRIDGE_URL. Its exit code 0 means charged, canceled or refunded.`,
  options: [
    [
      '--till "COMMAND"',
      'the command line of the till; spaces separate its words, double quotes hold one together',
    ],
    ['--only CASE,CASE', `only these, after paid: ${cases.map(({ id }) => id).join(', ')}`],
    ['--listen HOST:PORT', 'where the till sends its requests; 127.0.0.1:3100 without it'],
    ['--service URL', 'the service; http://127.0.0.1:3000 without it'],
    ['--sandbox URL', 'its sandbox; http://127.0.0.1:3001 without it'],
  ],
  exitCodes: [
    [0, 'the till passes every case'],
    [1, 'it fails one, or the service does not answer; the message says why'],
    [2, 'the command line is wrong'],
  ],
  example:
    'npm run till:check\nnpm run till:check -- --till "python3 examples/till/till.py" --only answer_lost,killed',
}

function readOptions() {
  const { values } = parseArgs({
    options: {
      till: { type: 'string' },
      only: { type: 'string' },
      listen: { type: 'string', default: '127.0.0.1:3100' },
      service: { type: 'string', default: 'http://127.0.0.1:3000' },
      sandbox: { type: 'string', default: 'http://127.0.0.1:3001' },
    },
  })
  const [, host, port] = /^(.+):(\d{1,5})$/.exec(values.listen) ?? []
  if (host === undefined) throw new UsageError('--listen is an address such as 127.0.0.1:3100')
  const plain = (url: string) => url.replace(/\/+$/, '')
  return {
    till: values.till,
    chosen: chooseCases(values.only),
    listen: { host, port: Number(port) },
    service: plain(values.service),
    sandbox: plain(values.sandbox),
  }
}

function chooseCases(only: string | undefined): readonly Case[] {
  if (only === undefined) return cases
  const names = only.split(',')
  const unknown = names.find((name) => !cases.some(({ id }) => id === name))
  if (unknown !== undefined)
    throw new UsageError(
      `there is no case ${unknown}; cases: ${cases.map(({ id }) => id).join(', ')}`,
    )
  return cases.filter(({ id }, index) => index === 0 || names.includes(id))
}

async function needAnswer(what: string, url: string, option: string): Promise<void> {
  const answer = await fetch(url).catch(() => undefined)
  if (!answer?.ok)
    throw new OperatorError(`There is no ${what} at ${url}: start it, or name it with ${option}`)
}

/** What the till was refused, each answer once: it may be the cause. */
function errorsOf(sent: readonly SentRequest[]): Set<string> {
  const refused = sent.filter(({ answer }) => (answer?.status ?? 0) >= 400)
  return new Set(
    refused.map(
      ({ method, path, answer }) =>
        `the service answered ${method} ${path}: ${answer?.status} ${answer?.body?.code} ${answer?.body?.error}`,
    ),
  )
}

/** Plays one case and prints how it ended; answers whether the till passed. */
async function judge(one: Case, number: number, stage: Stage): Promise<boolean> {
  say(`${String(number).padStart(2)}. ${one.id}: ${one.happens}`)
  await stage.begin()
  const problems = await one.play(stage).finally(() => stage.clear())
  for (const problem of problems) say(`    ${problem}`)
  if (problems.length > 0) for (const error of errorsOf(stage.sent())) say(`    ${error}`)
  say(problems.length === 0 ? '    passed' : `    FAILED: the till must ${one.must}`)
  return problems.length === 0
}

await runCommand(help, async () => {
  const { till: command, chosen, listen, service, sandbox } = readOptions()
  await needAnswer('service', `${service}/health`, '--service')
  await needAnswer('sandbox', `${sandbox}/_sandbox/situations`, '--sandbox')
  const line = await openRecordedLine(service, listen)
  const person =
    command === undefined ? personsTill((text) => process.stdout.write(text)) : undefined
  const till = person ?? commandTill(command ?? '', line.url)
  const end = new AbortController()
  const stage = openStage(sandbox, line, till, end.signal)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void stage.clear().finally(() => process.exit(1)))
  }
  say(`The till must send its requests to ${line.url}`)
  try {
    let passed = 0
    for (const [index, one] of chosen.entries()) {
      if (await judge(one, index + 1, stage)) passed += 1
      // Without its first charge the box of the till is unknown.
      else if (index === 0) break
    }
    say(`The till passes ${passed} of ${chosen.length} cases.`)
    return passed === chosen.length ? 0 : 1
  } finally {
    end.abort()
    person?.close()
    await line.close()
  }
})
