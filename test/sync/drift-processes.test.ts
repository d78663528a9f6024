import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { startTestService, type TestService } from '../support/service.ts'

type Row = Record<string, unknown>
const ids = Array.from({ length: 12 }, (_, n) => `A-${n}`)
const rows = (make: (n: number) => object) => ids.map((id, n): Row => ({ id, ...make(n) }))
const asEver = rows((n) => ({ price: n }))
const asTexts = rows(() => ({ price: 'N/A' }))
const asLists = rows((n) => ({ price: [n] }))

const judgedAgainMs = 16_000
/** Of loops in tests, which sleep no longer. */
const longestLookMs = 250

let folder: string
let target: TestTarget
let services: TestService[]
let processes: [TestFlows, TestFlows]

/** Two processes on one database that read the same file. */
beforeEach(async () => {
  target = await startTarget()
  const service = await startTestService()
  const twin = await startTestService({ twinOf: service })
  services = [service, twin]
  folder = await mkdtemp(join(tmpdir(), 'drift-processes-'))
  await show(asEver)
  const files = {
    'stock.flow.yaml': jsonFlow('stock', target.url, {
      startPaused: false,
      source: { type: 'file', path: join(folder, 'stock.json'), format: 'json', settle: '0s' },
      alerts: {
        onJobFailed: [{ type: 'webhook', url: `${target.url}/told` }],
        group: { wait: '0s', interval: '1s', repeat: '4h', resolved: true },
      },
    }),
  }
  processes = [
    await startTestFlows({ service, files }),
    await startTestFlows({ service: twin, files }),
  ]
  await processes[0].flows.sync('stock', { force: true })
  await processes[0].delivered()
  target.received.length = 0
})
afterEach(async () => {
  for (const process of processes.toReversed()) await process.stop()
  for (const service of services.toReversed()) await service.stop()
  await target.close()
  await rm(folder, { recursive: true })
})

const heldAt = async (process: TestFlows) =>
  (await process.call('GET', '/flow/stock/drift')).json().held
const sentSince = (before: number) =>
  new Set(target.received.slice(before).flatMap(({ path }) => path.match(/A-\d+/) ?? []))
const told = () => target.received.filter(({ path }) => path.includes('/told'))

/** Alerts are judged now and then: each of the processes has done so, and no more was told. */
async function toldBy(count: number): Promise<void> {
  services[0]?.clock.advance(judgedAgainMs)
  await expect.poll(() => told().length, { timeout: 10_000 }).toBe(count)
  services[0]?.clock.advance(judgedAgainMs)
  await wait(2 * longestLookMs)
  expect(told()).toHaveLength(count)
}

const show = (items: readonly Row[]) => writeFile(join(folder, 'stock.json'), JSON.stringify(items))

test('what one of two processes holds the other holds too, with one alert, and the release of either reaches both', async () => {
  for (const [finder, releaser, items, alerts] of [
    [0, 1, asTexts, 1],
    [1, 0, asLists, 3],
  ] as const) {
    const before = target.received.length
    await show(items)
    const found = await processes[finder].call('POST', '/sync/stock')
    expect(found.json()).toEqual({ name: 'stock', changes: 0, skipped: 'held' })
    const held = await heldAt(processes[releaser])
    expect(held).toMatchObject({ approved_at: null })
    expect(await heldAt(processes[finder])).toEqual(held)
    // Whoever looks, and whoever asks: it is the same hold.
    const again = await processes[releaser].call('POST', '/sync/stock')
    expect(again.json()).toEqual({ name: 'stock', changes: 0, skipped: 'held' })
    expect(await heldAt(processes[finder])).toMatchObject({ since: held.since, read: held.read })
    await toldBy(alerts)
    expect(sentSince(before)).toEqual(new Set())

    const approved = await processes[releaser].call('POST', '/flow/stock/drift/approve', {
      body: { read: held.read },
    })
    expect(approved.json()).toMatchObject({ name: 'stock', status: 'approved' })
    await expect.poll(() => sentSince(before).size, { timeout: 10_000 }).toBe(ids.length)
    // Written down too: what is not when the clock jumps, and leases with it, is sent once more.
    await processes[finder].delivered()
    for (const process of processes) expect(await heldAt(process)).toBeNull()
    // It is over: that is told once, too.
    await toldBy(alerts + 1)
  }
}, 60_000)
