import { randomUUID } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { chainBoxes, seedChainDay } from '../test/closings/chain-day.ts'
import { readClosing } from '../test/closings/shop-day.ts'
import { cancel } from '../test/support/money.ts'
import { call, charge, createStore } from '../test/support/till.ts'
import { processorMs, quantile, type Shop, say } from './bench-service.ts'
import { createDatabase, startProduct, startProvider } from './peer/contenders.ts'
import { wholeOptions } from './whole-options.ts'

// What does it cost a process to close the day of a chain of 40 boxes? The real service on PostgreSQL and the provider, in
// processes of their own, with a day whose sales both sides have: how long until every closing is decided, the processor time
// of the service alone, and by how much its memory grows at most (VmHWM of proc_pid_status(5), reset before).
// Then how much slower the charges of another client are while all files of these closings are downloaded at once.
// Run: npm run bench -- closing [--charges n]

const { charges } = wholeOptions({ charges: 10_000 })
const dayMs = 86_400_000

function memoryMb(pid: number, field: 'VmRSS' | 'VmHWM'): number {
  const [, kb] = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(
    readFileSync(`/proc/${pid}/status`, 'utf8'),
  ) as unknown as [string, string]
  return Number(kb) / 1_024
}

const filesAtOnce = 300
const chargesAlone = 30

/** Charges of one client, one after the other, alone and while the files of another client's closings are made. */
async function chargesBesideFiles(
  service: Parameters<typeof charge>[0],
  till: Shop,
  shop: Shop,
  ids: readonly string[],
): Promise<void> {
  const timedCharge = async () => {
    const startedAt = performance.now()
    const answer = await charge(service, till, { reference: randomUUID() })
    const ms = performance.now() - startedAt
    if (answer.statusCode !== 201)
      throw new Error(`a charge was answered with ${answer.statusCode}`)
    await cancel(service, till, answer.json().order_id)
    return ms
  }
  const alone: number[] = []
  while (alone.length < chargesAlone) alone.push(await timedCharge())
  const startedAt = performance.now()
  let bytes = 0
  let refused = 0
  let isOver = false
  const downloads = Array.from({ length: filesAtOnce }, async (_, index) => {
    const url = `/closings/${ids[index % ids.length]}/csv`
    const answer = await call(service, { url, token: shop.key })
    bytes += answer.body.length
    if (answer.statusCode !== 200) refused += 1
  })
  const over = Promise.all(downloads).then(() => {
    isOver = true
  })
  const beside: number[] = []
  while (!isOver) beside.push(await timedCharge())
  await over
  const seconds = (performance.now() - startedAt) / 1_000
  const figures = (all: readonly number[]) =>
    `${quantile(all, 0.5).toFixed(0)} ms in the middle, ${Math.max(...all).toFixed(0)} ms at most`
  say(
    `  ${filesAtOnce} files at once: ${refused} refused, ${(bytes / 2 ** 20).toFixed(1)} MB in ${seconds.toFixed(1)} s`,
  )
  say(
    `  a charge of another client: alone ${figures(alone)}, beside them ${figures(beside)} (${beside.length} charges)`,
  )
}

async function run(server: string): Promise<void> {
  const provider = await startProvider()
  const place = await createDatabase(server)
  const product = await startProduct(place.url, provider, {
    processes: 1,
    shops: 2,
    firstAccount: 8_500_000,
  })
  try {
    const { service, shops, pids } = product
    const [shop, other] = shops
    const [pid] = pids
    if (!shop || !other || !pid) throw new Error('nothing was started')
    await createStore(service, shop, { id: 'SUC-2', boxes: [...chainBoxes] })
    // Yesterday by the clock of Buenos Aires, from nine in the morning on.
    const day = new Date(Date.now() - 3 * 3_600_000 - dayMs).toISOString().slice(0, 10)
    const beganMs = Date.parse(`${day}T09:00:00-03:00`)
    const expected = await seedChainDay(service, shop, { charges, beganMs })
    // The rows came past the service: the collector of garbage had no part in it.
    const rssBefore = memoryMb(pid, 'VmRSS')
    writeFileSync(`/proc/${pid}/clear_refs`, '5')
    const cpuBefore = processorMs([pid])
    const startedAt = performance.now()
    const opened = await Promise.all(
      chainBoxes.map((caja_id) =>
        call(service, { url: '/closings', token: shop.key, body: { caja_id, business_day: day } }),
      ),
    )
    const ids = opened.map((answer) => answer.json().id as string)
    const states = () =>
      service.database.db
        .selectFrom('closings')
        .select('state')
        .where('state', 'in', ['open', 'checking'])
        .execute()
    while ((await states()).length > 0) await wait(100)
    const seconds = (performance.now() - startedAt) / 1_000
    const cpuSeconds = (processorMs([pid]) - cpuBefore) / 1_000

    const grownMb = memoryMb(pid, 'VmHWM') - rssBefore
    const found: string[] = []
    for (const id of ids) {
      const { lines, caja_id } = await readClosing(service, shop, id)
      for (const { kind, payment_id } of lines) found.push(`${kind} ${caja_id} ${payment_id}`)
    }
    const isRight = found.toSorted().join() === expected.toSorted().join()
    say(`a day of ${charges} charges over ${chainBoxes.length} boxes, on PostgreSQL`)
    say(
      `  decided after ${seconds.toFixed(1)} s, ${cpuSeconds.toFixed(1)} s of the service's processor, ` +
        `${grownMb.toFixed(0)} MB more at most (${rssBefore.toFixed(0)} MB before)`,
    )
    say(
      `  ${found.length} differences found, ${expected.length} planted: ${isRight ? 'the same' : 'NOT the same'}`,
    )
    if (!isRight) process.exitCode = 1
    await chargesBesideFiles(service, other, shop, ids)
  } finally {
    await product.stop()
    provider.stop()
    await place.drop()
  }
}

const server = process.env.TEST_DATABASE_URL
if (server) await run(server)
else say('closing the day of a chain: SKIPPED, it needs TEST_DATABASE_URL')
