import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { readOptions, readWholeNumber } from '../src/commands/run-command.ts'
import { quantile, say } from './bench-service.ts'
import { type Contender, handWritten, ours, startReceiver } from './flows-peers/contenders.ts'
import {
  type Cost,
  changeSome,
  costOf,
  firstAfterKills,
  idleCost,
  type Kills,
  makeItems,
  rightAfterOutages,
  type Testbed,
  untilEqual,
} from './flows-peers/measures.ts'
import { openServerCost } from './flows-peers/server-cost.ts'
import { createDatabase } from './peer/contenders.ts'
import { helpOf } from './whole-options.ts'

// What do flows cost beside a program written by hand with graphile-worker for the same table and receiver,
// and how soon are they back? Both run in processes of their own, eight requests at a time, and take turns. Counted is the
// processor time of the program and of the whole database server, which must do no other work. Node-RED and n8n are
// left out: they are too large for a development dependency.
// Run: npm run bench -- flows-peers [--items n] [--only import|cost|idle|kills|standby|work|outages] [--kills n] [--contender ours|graphile-worker]

const parts = ['import', 'cost', 'idle', 'kills', 'standby', 'work', 'outages'] as const
type Part = (typeof parts)[number]
const options = {
  items: 20_000,
  'only import|cost|idle|kills|standby|work|outages': 'all of them',
  kills: 20,
  'contender ours|graphile-worker': 'both',
}
const values = readOptions(helpOf(options), {
  items: { type: 'string', default: '20000' },
  only: { type: 'string' },
  kills: { type: 'string', default: '20' },
  contender: { type: 'string' },
})
const items = readWholeNumber('items', values.items, 1_000)
const kills = readWholeNumber('kills', values.kills, 1)
const plays = (part: Part) => values.only === undefined || values.only === part

const pollMs = 1_000
const outagesMs = [3_000, 10_000, 60_000]
const idleSeconds = 20
/** A start does things that a service at rest does not. */
const settleMs = 10_000

type Figures = {
  costs: Map<string, Cost>
  kills: Map<string, Kills>
  outagesMs: readonly number[]
}

async function measure(server: string, contender: Contender): Promise<Figures> {
  const [own, source] = [await createDatabase(server), await createDatabase(server)]
  const receiver = await startReceiver()
  const folder = await mkdtemp(join(tmpdir(), 'tillbridge-bench-'))
  const cost = await openServerCost(server)
  const place = {
    ...{ databaseUrl: own.url, sourceUrl: source.url, folder },
    receiverUrl: receiver.url,
  }
  const testbed: Testbed = { contender, place, receiver, cost }
  try {
    await makeItems(testbed, items)
    const costs = await measureCosts(testbed)
    return {
      costs,
      kills: await measureKills(testbed),
      outagesMs: plays('outages')
        ? await rightAfterOutages(testbed, { outagesMs, count: items, pollMs })
        : [],
    }
  } finally {
    await cost.end()
    receiver.stop()
    await own.drop()
    await source.drop()
    await rm(folder, { recursive: true })
  }
}

async function measureKills(testbed: Testbed): Promise<Map<string, Kills>> {
  const found = new Map<string, Kills>()
  const options = { kills, count: items, pollMs }
  const play = async (title: string, more: { standby?: boolean; refuses?: boolean }) => {
    found.set(title, await firstAfterKills(testbed, { ...options, ...more }))
  }
  if (plays('kills')) await play('first request after kill -9', {})
  if (plays('standby')) await play('the same where another process waits', { standby: true })
  if (plays('work')) await play('the same where every tenth request gets 503', { refuses: true })
  return found
}

/** Everything but the import needs what it leaves, so that is always made. */
async function measureCosts(testbed: Testbed): Promise<Map<string, Cost>> {
  const { contender, place } = testbed
  const costs = new Map<string, Cost>()
  const running = await contender.start(place)
  // The tables are there, and the program has compiled what a first poll needs.
  await wait(settleMs / 2)
  costs.set('import', await costOf(testbed, running, items))
  await untilEqual(testbed)
  if (plays('cost')) {
    await running.poll()
    costs.set('unchanged', await costOf(testbed, running, 0))
    const requests = await changeSome(testbed)
    const changed = await costOf(testbed, running, requests)
    costs.set('changed', { ...changed, walBytes: changed.walBytes / requests })
    await untilEqual(testbed)
  }
  await running.kill('SIGTERM')
  if (plays('idle')) {
    const daily = await contender.start(place, 24 * 60 * 60_000)
    await wait(settleMs)
    costs.set('idle', await idleCost(testbed, daily, idleSeconds))
    await daily.kill('SIGTERM')
  }
  return costs
}

const titles: Record<string, string> = {
  import: `import of ${items} rows`,
  unchanged: `poll of ${items} unchanged rows`,
  changed: 'poll with 1 % changed and 0.2 % deleted',
  idle: 'a second with nothing to do',
}

function report(names: readonly string[], figures: readonly Figures[]): void {
  for (const [what, title] of Object.entries(titles)) {
    const found = figures.map(({ costs }) => costs.get(what))
    if (found.some((cost) => cost === undefined)) continue
    const total = (cost: Cost | undefined) => (cost ? cost.programMs + cost.serverMs : Number.NaN)
    const columns = found.map((cost, place) => {
      const { programMs = 0, serverMs = 0, tookMs = 0, walBytes = 0 } = cost ?? {}
      const wal = what === 'changed' ? `, ${(walBytes / 1_000).toFixed(1)} KB of log a change` : ''
      const cpu = `${(programMs + serverMs).toFixed(0)} ms of CPU (${programMs.toFixed(0)} + ${serverMs.toFixed(0)})`
      return `${names[place]} ${cpu} in ${(tookMs / 1_000).toFixed(1)} s${wal}`
    })
    const ratio =
      found.length > 1 ? `; ratio ${(total(found[0]) / total(found[1])).toFixed(2)}` : ''
    say(`  ${title}: ${columns.join('; ')}${ratio}`)
  }
  const seconds = (ms: number) =>
    Number.isFinite(ms) ? `${(ms / 1_000).toFixed(1)} s` : 'not within two minutes'
  for (const [place, { kills: killed, outagesMs: took }] of figures.entries()) {
    for (const [title, { firstMs, again, older }] of killed) {
      const [median, worst] = [quantile(firstMs, 0.5), Math.max(...firstMs)]
      say(
        `  ${title}: ${names[place]} ${seconds(median)}, worst ${seconds(worst)}; sent again ${(100 * again).toFixed(2)} %, older after newer ${older}; right at the end`,
      )
    }
    for (const [index, ms] of took.entries()) {
      say(
        `  right after an outage of ${seconds(outagesMs[index] ?? 0)}: ${names[place]} ${seconds(ms)}`,
      )
    }
  }
}

const server = process.env.TEST_DATABASE_URL || process.env.DATABASE_URL
if (server) {
  const chosen = [ours, handWritten].filter(
    ({ name }) => values.contender === undefined || values.contender === name,
  )
  say(`flows beside a hand-written program, ${items} items (program + database server)`)
  const figures: Figures[] = []
  for (const contender of chosen) figures.push(await measure(server, contender))
  report(
    chosen.map(({ name }) => name),
    figures,
  )
} else {
  say('flows beside a hand-written program: SKIPPED, it needs TEST_DATABASE_URL')
}
