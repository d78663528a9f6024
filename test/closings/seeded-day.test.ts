/** @module-tag night */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { openHttpReceiver } from '../notifications/receivers.ts'
import { clearFaults, openOwnShop, setFaults } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { call, createStore, sandboxCall, type Till } from '../support/till.ts'
import { chainBoxes, planted, seedChainDay } from './chain-day.ts'
import { openClosing, readClosing, today } from './shop-day.ts'

/** The whole day of a chain. */
const charges = 10_000
const searching = { path: '^/v1/payments/search$', method: 'GET' }

let service: TestService
let till: Till
let hook: Awaited<ReturnType<typeof openHttpReceiver>>
beforeAll(async () => {
  hook = await openHttpReceiver()
  service = await startTestService({
    env: {
      RATE_LIMIT_PER_SECOND: '100000',
      ALERT_WEBHOOK_URL: hook.url,
      ALERT_PRIVATE_NETWORK: 'true',
    },
  })
  till = await openOwnShop(service, 'chain')
  await createStore(service, till, { id: 'SUC-2', boxes: [...chainBoxes] })
  const hourMs = 3_600_000
  const sinceMidnight = (service.clock.now().getTime() - 3 * hourMs) % (24 * hourMs)
  service.clock.advance(24 * hourMs - sinceMidnight + 22 * hourMs)
}, 120_000)
afterAll(async () => {
  await service.stop()
  await hook.close()
})

test('exactly the planted differences of a day of 40 boxes are found', async () => {
  const beganMs = service.clock.now().getTime() - 12 * 3_600_000
  const expected = await seedChainDay(service, till, { charges, beganMs })
  await sandboxCall(service, 'PUT', '/_sandbox/index', { lag_ms: 40_000 })
  const opened = await Promise.all(
    chainBoxes.map((caja_id) =>
      openClosing(service, till, { caja_id, business_day: today(service) }),
    ),
  )
  const ids = opened.map((answer) => answer.json().id as string)
  await setFaults(
    service,
    { ...searching, kind: '500', chance: 0.2, seed: 3 },
    { ...searching, kind: 'torn_body', chance: 0.05, seed: 4 },
  )
  service.clock.advance(61_000)
  // Two processes stop in the middle: their pages are read again, and no row is stored twice.
  for (let kill = 0; kill < 2; kill += 1) {
    const duplicate = await startTestService({ twinOf: service })
    const working = duplicate.paymentWatch.watchOnce().catch(() => undefined)
    await expect
      .poll(async () => {
        const states = await service.database.db
          .selectFrom('closings')
          .select((eb) => eb.fn.countAll<number>().as('done'))
          .where('state', 'not in', ['open', 'checking'])
          .executeTakeFirstOrThrow()
        return states.done
      })
      .toBeGreaterThan(2 * kill)
    await duplicate.paymentWatch.stop()
    await working
    await duplicate.stop()
  }
  const before = process.cpuUsage()
  const rssBefore = process.memoryUsage.rss()
  let rssMost = rssBefore
  const sampling = setInterval(() => {
    rssMost = Math.max(rssMost, process.memoryUsage.rss())
  }, 20)
  for (let round = 0; round < 12; round += 1) {
    await service.paymentWatch.watchOnce()
    await service.notifications.checkOnce()
    service.clock.advance(5 * 60_000)
  }
  clearInterval(sampling)
  const { user, system } = process.cpuUsage(before)
  // Of the process, with the embedded database; printed and not checked, because they depend on the machine.
  const grownMb = Math.round((rssMost - rssBefore) / 2 ** 20)
  const seconds = ((user + system) / 1e6).toFixed(1)
  process.stdout.write(
    `${charges} charges compared in ${seconds} s of processor time, ${grownMb} MB more memory\n`,
  )
  await clearFaults(service)
  const notified = hook
    .bodies()
    .filter(({ type }) => type === 'orphans.found')
    .flatMap(({ data }) => data.orphans.map((one: { payment_id: string }) => one.payment_id))
  expect(notified.toSorted()).toEqual(
    Array.from({ length: planted.orphans }, (_, at) => String(980_000_000 + at)),
  )

  const found: string[] = []
  for (const id of ids) {
    const { lines, caja_id, state } = await readClosing(service, till, id)
    expect(['agreed', 'differs'], `${caja_id} is ${state}`).toContain(state)
    expect(state === 'agreed', caja_id).toBe(lines.length === 0)
    for (const { kind, payment_id } of lines) found.push(`${kind} ${caja_id} ${payment_id}`)
  }
  expect(found.toSorted()).toEqual(expected.toSorted())
  const signed = await Promise.all(
    ids.map((id) =>
      call(service, { method: 'POST', url: `/closings/${id}/sign`, token: till.key }),
    ),
  )
  expect(signed.every(({ statusCode }) => statusCode === 200)).toBe(true)
}, 240_000)
