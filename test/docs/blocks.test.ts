/** @module-tag long */

import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ServiceProcess, startService } from '../../demo/service-process.ts'
import { type Block, blocksOf, documentPages, plainAnswer } from '../support/document-blocks.ts'

/**
 * Uses every block of the user's pages as a reader would: runs commands in order against the service and its sandbox, writes
 * files where the page names them, parses JSON. A block that cannot run has a reason.
 */
const root = fileURLToPath(new URL('../..', import.meta.url))
const pages = documentPages(root)
/** Pages whose commands need the results of earlier pages, in that order. */
const firstCharge = 'docs/tutorials/first-charge.md'
const order = [
  firstCharge,
  'docs/tutorials/first-flow.md',
  'docs/how-to/charge-from-an-erp.md',
  'docs/how-to/run-flows.md',
]
const withCommands = pages.filter((page) => blocksOf(root, page).some((block) => runs(block)))
const inOrder = [...order, ...withCommands.filter((page) => !order.includes(page))]

const folder = mkdtempSync(join(tmpdir(), 'tillbridge-docs-'))
let service: ServiceProcess
let adapt: (text: string) => string
/** Variables that earlier pages set. */
let state = ''

beforeAll(async () => {
  const names = ['DATA_DIR', 'PORT', 'SANDBOX_PORT', 'SYNC_PORT'] as const
  const before = names.map((name) => process.env[name])
  Object.assign(process.env, {
    DATA_DIR: join(folder, 'data'),
    PORT: '0',
    SANDBOX_PORT: '0',
    SYNC_PORT: '0',
  })
  service = await startService('http://127.0.0.1:9', {
    flowsDir: join(folder, 'flows'),
    settings: { CONNECTIONS_FILE: join(folder, 'connections.yaml') },
  })
  names.forEach((name, index) => {
    if (before[index] === undefined) delete process.env[name]
    else process.env[name] = before[index]
  })
  adapt = (text) =>
    text
      .replaceAll('http://127.0.0.1:3000', service.url)
      .replaceAll('http://127.0.0.1:3001', service.sandboxUrl)
      .replaceAll('http://127.0.0.1:8080', service.syncUrl)
      .replaceAll(/\.{1,2}\/(data|flows|erp-archivos|connections\.yaml)\b/g, join(folder, '$1'))
}, 120_000)

afterAll(async () => {
  await service?.stop()
  rmSync(folder, { recursive: true, force: true })
})

function runs({ language, reason }: Block): boolean {
  return language === 'sh' && reason === undefined
}

/** Commands that the test itself replaces. */
const started = /^npm (ci|start|test)\b.*$|^npm run demo\b.*$/

type Ran = {
  status: number | null
  output: string
  /** What the last request answered: its status, and the last line that was printed. */
  answer: { status: number; shown: string }
}

async function run(commands: string): Promise<Ran> {
  const script = [
    'set -eo pipefail',
    // A refused request fails the block, as a reader would notice it.
    `curl() { command curl --fail-with-body -w '%{stderr}=status=%{http_code}\\n' "$@"; }`,
    state,
    commands,
    'echo',
    'echo "=state="',
    ...['ADMIN_TOKEN', 'KEY', 'ORDER_ID', 'NEXT', 'ENDPOINT'].map(
      (name) => `echo "${name}=$${name}"`,
    ),
  ].join('\n')
  const child = spawn('bash', ['-c', script], {
    cwd: root,
    env: {
      ...process.env,
      ...{ DATA_DIR: join(folder, 'data'), FLOWS_DIR: join(folder, 'flows') },
      CONNECTIONS_FILE: join(folder, 'connections.yaml'),
    },
  })
  let [printed, complaint] = ['', '']
  child.stdout.on('data', (chunk: Buffer) => {
    printed += chunk.toString()
  })
  child.stderr.on('data', (chunk: Buffer) => {
    complaint += chunk.toString()
  })
  const status = await new Promise<number | null>((resolve) => child.once('close', resolve))
  const [shown = '', kept] = printed.split('=state=\n')
  if (kept !== undefined) state = kept
  const answered = [...complaint.matchAll(/=status=(\d+)/g)].at(-1)?.[1]
  const last = shown.trimEnd().split('\n').at(-1) ?? ''
  return { status, output: shown + complaint, answer: { status: Number(answered), shown: last } }
}

/** The status of curl for a refused request. */
const refused = 22

async function runPage(page: string): Promise<void> {
  const all = blocksOf(root, page)
  for (const [index, block] of all.entries()) {
    if (block.file !== undefined) {
      const path = adapt(block.file)
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, adapt(block.text))
    }
    if (!runs(block)) continue
    const commands = block.text
      .split('\n')
      .filter((line) => !started.test(line))
      .join('\n')
    const { status, output, answer } = await run(adapt(commands))
    const where = `${page}:${block.line}\n${commands}\n${output}`
    const next = all[index + 1]
    expect(status, where).toBe((next?.answer ?? 200) >= 400 ? refused : 0)
    if (next?.answer === undefined) continue
    expect(answer.status, where).toBe(next.answer)
    expect(plainAnswer(JSON.parse(adapt(next.text))), where).toEqual(
      plainAnswer(JSON.parse(answer.shown)),
    )
  }
}

const translated = inOrder.filter((page) => page.startsWith('docs/es/'))

// Commands are processes of their own, slow on a busy machine.
test('the commands of the pages run in order, and the tutorials end with the results that they show', async () => {
  for (const page of inOrder) if (!translated.includes(page)) await runPage(page)
  const { ORDER_ID } = Object.fromEntries(
    state.split('\n').map((line) => line.split('=') as [string, string]),
  )
  expect(ORDER_ID).toMatch(/^[0-9a-f-]{36}$/)
  const copied = readFileSync(join(folder, 'erp-archivos/salida/articulos.ndjson'), 'utf8')
  expect(copied).toContain('"sku":"A-1"')
}, 900_000)

const englishPages: Record<string, string> = {
  'docs/es/primer-flujo.md': 'docs/tutorials/first-flow.md',
  'docs/es/cobrar-desde-el-erp.md': 'docs/how-to/charge-from-an-erp.md',
  'docs/es/probar-la-caja.md': 'docs/how-to/test-a-till.md',
}

test.each(translated)('%s has the commands of the English page', (page) => {
  const english = page.replace(/.*primer-cobro.*/, firstCharge)
  const original = english === page ? englishPages[page] : english
  const commandsOf = (one: string) =>
    blocksOf(root, one)
      .filter(({ language }) => language !== 'text')
      .map(({ text }) => text)
  expect(commandsOf(page)).toEqual(commandsOf(String(original)))
})

const blocks = pages.flatMap((page) => blocksOf(root, page).map((block) => ({ page, ...block })))

test('every JSON block is JSON', () => {
  const json = blocks.filter(({ language }) => language === 'json')
  expect(json.length).toBeGreaterThan(3)
  for (const { page, line, text } of json)
    expect(() => JSON.parse(text), `${page}:${line}`).not.toThrow()
})

test('each block is run, parsed or checked, or has a reason why not', () => {
  const used = ['sh', 'yaml', 'json', 'text']
  const left = blocks.filter(
    ({ language, reason }) => reason === undefined && !used.includes(language),
  )
  expect(left.map(({ page, line }) => `${page}:${line}`)).toEqual([])
  const reasons = blocks.flatMap(({ reason }) => (reason === undefined ? [] : [reason]))
  for (const reason of reasons) expect(reason.length).toBeGreaterThan(5)
  expect(blocks.filter(runs).length).toBeGreaterThan(reasons.length)
})
