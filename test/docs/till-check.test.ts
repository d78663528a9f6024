import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { copyFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { cases } from '../../demo/till-check/cases.ts'
import { installClient } from '../process/installed-client.ts'
import { openRealShop, type RealShop } from '../process/real-shop.ts'

/** `npm run till:check` passes the tills of examples/till, and names what a till with a mistake does wrong. */
const folder = mkdtempSync(join(tmpdir(), 'tillbridge-till-check-'))
let shop: RealShop
let tills = 0
/** Ended after the last test, also those of a test that ran out of time. */
const children: ChildProcess[] = []

beforeAll(async () => {
  shop = await openRealShop()
  shop.buyerPays(false)
  installClient(folder)
  await copyFile('examples/till/till.ts', join(folder, 'till.ts'))
}, 120_000)
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL')
  await shop?.stop()
  await rm(folder, { recursive: true, force: true })
})
beforeEach(() => {
  tills += 1
})

const tillSettings = () => ({
  PATH: process.env.PATH,
  TILLBRIDGE_KEY: shop.key,
  TILLBRIDGE_BOX: 'CAJA-1',
  TILL_FILE: join(folder, `till-${tills}.db`),
})

/** Runs the command with these options; `person` uses the till. */
async function run(options: readonly string[], person?: (child: ChildProcess) => void) {
  const at = ['--listen', '127.0.0.1:0', '--service', shop.url, '--sandbox', shop.sandboxUrl]
  const child = spawn(process.execPath, ['demo/till-check/main.ts', ...at, ...options], {
    env: tillSettings(),
  })
  children.push(child)
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      said += chunk.toString()
    })
  }
  person?.(child)
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  return { code, said }
}

async function expectTenPassed(till: string): Promise<void> {
  const { code, said } = await run(['--till', till])
  expect(code, said).toBe(0)
  expect(said).toContain('The till passes 10 of 10 cases.')
}

test('the till in Python passes the ten cases', { tags: ['long'] }, () =>
  expectTenPassed('python3 examples/till/till.py'),
)

test('the till in TypeScript passes the ten cases', { tags: ['night'] }, () =>
  expectTenPassed(`"${process.execPath}" "${join(folder, 'till.ts')}"`),
)

/** In place of the wait after a lost answer, and before the next try. */
const afterLoss = 'time.sleep(1)\n            continue'

/** A mistake in the till in Python: what stands there, what replaces it, the case that fails, and what the command says. */
const mistakes: [name: string, from: string, to: string, id: string, problem: string][] = [
  [
    'that takes a declined charge for a paid one',
    "!= 'charged' else 0",
    "== '' else 0",
    'declined',
    'the till says done though the bank declined',
  ],
  [
    'that charges a canceled ticket with its old key',
    'keep(ticket, key=str(uuid.uuid4()), body=body,',
    'keep(ticket, body=body,',
    'canceled',
    'with the Idempotency-Key of the charge that failed',
  ],
  [
    'that makes a new key after a lost answer',
    afterLoss,
    'key = key and str(uuid.uuid4())\n            continue',
    'answer_lost',
    'the till sent the charge again with another Idempotency-Key',
  ],
  [
    'that does not repeat a lost request',
    afterLoss,
    'break',
    'answer_lost',
    'the till did not send the charge again',
  ],
  [
    'that forgets its key in a crash',
    '    if sale is None:',
    '    if sale: db.execute("DELETE FROM sales")\n    if True:',
    'killed',
    'the till sent the charge again with another Idempotency-Key',
  ],
  [
    'that gives up when an order cannot be read',
    afterLoss,
    "time.sleep(1)\n            if method == 'GET': break\n            continue",
    'network_down',
    'the till does not say done at the end',
  ],
  [
    'that repeats without a pause',
    'time.sleep(seconds)',
    'time.sleep(0.05)',
    'throttled',
    'the till sent the charge again too early',
  ],
  [
    'that does not wait while the terminal is busy',
    'raise Refused(answer)',
    'time.sleep(0.1)\n            continue',
    'terminal_busy',
    'the till sent the charge again too early',
  ],
  [
    'that takes a refusal for the end',
    'print(refused, file=sys.stderr)\n        sys.exit(1)',
    'print(refused, file=sys.stderr)\n        sys.exit(0)',
    'terminal_busy',
    'the till says done while the terminal is busy',
  ],
  [
    'that refunds without a stored key',
    "sale['refund_body'], sale['refund_key'])",
    "sale['refund_body'])",
    'refunded',
    'the till sent a refund without Idempotency-Key',
  ],
]

test.each(mistakes)('a till %s fails', { tags: ['night'] }, async (_, from, to, id, problem) => {
  const text = readFileSync('examples/till/till.py', 'utf8')
  expect(text).toContain(from)
  const file = join(folder, `mistake-${tills}.py`)
  writeFileSync(file, text.replace(from, to))
  const { code, said } = await run(['--till', `python3 "${file}"`, '--only', id])
  expect(code, said).toBe(1)
  expect(said).toContain(problem)
  expect(said).toContain('The till passes 1 of 2 cases.')
})

/** Does at the till in Python what the command says, and types how it ended. */
function personAt(child: ChildProcess): void {
  let till: ChildProcess | undefined
  let ended: Promise<unknown> | undefined
  const type = (text: string) => child.stdin?.write(`${text}\n`)
  const use = (...step: string[]) => {
    const line = /requests to (\S+)/.exec(all)?.[1]
    till = spawn('python3', ['examples/till/till.py', ...step], {
      env: { ...tillSettings(), TILLBRIDGE_URL: line },
    })
    ended = new Promise((resolve) => till?.once('close', resolve))
  }
  let [all, shown] = ['', '']
  const told =
    /At the till: charge ([\d,]+), as ticket (\S+) .*\n|At the till: start (.*)\n|(Kill the till now).*Enter\. |Does it .* y\/n /
  child.stdout?.on('data', (chunk: Buffer) => {
    all += chunk.toString()
    shown += chunk.toString()
    for (let words = told.exec(shown); words; words = told.exec(shown)) {
      const [whole, amount, ticket, again, kill] = words
      shown = shown.slice(words.index + whole.length)
      if (ticket) use('charge', ticket, String(amount))
      else if (again) use('resume')
      else if (kill) {
        till?.kill('SIGKILL')
        type('')
      } else {
        void ended?.then((code) => code !== null && type(code === 0 ? 'y' : 'n'))
      }
    }
  })
}

test('a person at the till is told what to do, and asked how it ended', {
  tags: ['long'],
}, async () => {
  const { code, said } = await run(['--only', 'killed,terminal_busy'], personAt)
  expect(code, said).toBe(0)
  expect(said).toContain('The till passes 3 of 3 cases.')
  const alone = await run(['--only', 'paid'], ({ stdin }) => stdin?.end('no\n'))
  expect([alone.code, alone.said]).toEqual([1, expect.stringContaining('the till sent no charge')])
  const silent = await run(['--only', 'paid'], ({ stdin }) => stdin?.end())
  expect([silent.code, silent.said]).toEqual([1, expect.stringContaining('the input has ended')])
})

test('a till whose key is wrong is told what the service answered', {
  tags: ['long'],
}, async () => {
  const { code, said } = await run([
    '--till',
    `/usr/bin/env TILLBRIDGE_KEY=canary-wrong python3 examples/till/till.py`,
  ])
  expect([code, said]).toEqual([1, expect.stringContaining('POST /orders: 401 UNAUTHORIZED')])
  expect(said).toContain('The till passes 0 of 10 cases.')
})

test.each([
  [['--only', 'none'], 2, 'there is no case none; cases: paid, declined'],
  [['--listen', '3100'], 2, '--listen is an address such as 127.0.0.1:3100'],
  [['--till', '/there/is/none'], 1, 'The till cannot be run'],
  [['--service', 'http://127.0.0.1:9'], 1, 'There is no service at http://127.0.0.1:9/health'],
])('%s is refused with the reason', { tags: ['long'] }, async (words, code, reason) => {
  const ended = await run(words)
  expect([ended.code, ended.said]).toEqual([code, expect.stringContaining(reason)])
})

test('the page has a row for each of the ten cases, and no other', { tags: ['long'] }, () => {
  const page = readFileSync('docs/how-to/test-a-till.md', 'utf8')
  const [, section = ''] = page.split('## What your till must pass')
  const rows = [...section.matchAll(/^\| `([a-z_]+)` \| (.+?) \| (.+?) \|$/gm)]
  expect(rows.map(([, ...cells]) => cells)).toEqual(
    cases.map(({ id, happens, must }) => [id, happens, must]),
  )
  expect(cases).toHaveLength(10)
})

test('the Spanish page has the same rows, with the same names and answers', () => {
  const namesIn = (file: string) =>
    [...readFileSync(file, 'utf8').matchAll(/^\| `.*$/gm)].map(([row]) =>
      row.match(/`[^`]+`|[A-Z]{2,}_[A-Z]+/g),
    )
  const english = namesIn('docs/how-to/test-a-till.md')
  expect(english.length).toBeGreaterThan(20)
  expect(namesIn('docs/es/probar-la-caja.md')).toEqual(english)
})
