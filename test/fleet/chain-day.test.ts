/** @module-tag long */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { type BusyShop, openBusyShop, refuseThreeBoxes } from '../support/busy-shop.ts'
import { clearFaults, setFaults } from '../support/money.ts'
import { by, join } from '../support/people.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  openShop,
  pairTerminal,
  payByCard,
  type Till,
} from '../support/till.ts'

let service: TestService
let saturday: BusyShop
let shop: Till

beforeAll(async () => {
  service = await startTestService()
  saturday = await openBusyShop(service)
  shop = saturday.shop
})
afterAll(async () => {
  await saturday.stop()
  await service.stop()
})

const sell = (id: string) => saturday.sell(id)

async function fleet(query = '', token?: string) {
  const request = { url: `/health/fleet${query}`, headers: { 'accept-language': 'en' } }
  const answer = token
    ? await call(service, { ...request, token })
    : await asAdmin(service, request)
  expect(answer.statusCode, answer.body).toBe(200)
  return answer.json()
}

async function box(id: string) {
  return (await fleet('', shop.key)).boxes.find((one: { caja_id: string }) => one.caja_id === id)
}

async function sellWell(id: string): Promise<void> {
  const sold = await sell(id)
  expect(sold.statusCode, sold.body).toBe(201)
  await act(service, sold.json().order_id, payByCard)
  await call(service, { url: `/orders/${sold.json().order_id}`, token: shop.key })
}

test('a Saturday: the fleet shows each box and connection, stores each change, and a client reads its own', async () => {
  await seeUnusedBox()
  await sellAtBox()
  await bringThreeBoxesDown()
  await readOverview()
  await switchTerminalOff()
  await failAtProvider()
  await openOtherClient()
  await keepChanges()
  await readHistory()
}, 60_000)

test('a destination whose sending is suspended needs attention, with its flow and its pending deliveries', async () => {
  await expect
    .poll(async () => (await fleet('?only=problems')).flows, { timeout: 20_000, interval: 50 })
    .toMatchObject([
      {
        flow: 'articles',
        state: 'attention',
        cause: 'destination_failing',
        since: expect.any(String),
        action: 'check_destination',
        destinations: [
          {
            name: 'web',
            state: 'down',
            cause: 'destination_failing',
            since: expect.any(String),
            next_try_at: expect.any(String),
            pending: 40,
          },
        ],
      },
    ])
})

test('each dashboard links to the other one, and only operators get the link to the flows', async () => {
  const health = (await asAdmin(service, { url: '/health' })).json()
  expect(health.flows_page).toBe('http://127.0.0.1:8080/admin')
  const operator = await join(service, { name: 'operator', role: 'flow_operator' })
  expect((await by(service, operator, { url: '/health' })).json()).toMatchObject({
    flows_page: health.flows_page,
  })
  expect((await call(service, { url: '/health', token: shop.key })).json()).not.toHaveProperty(
    'flows_page',
  )
  const { dashboard_page: back } = (await saturday.side.call('GET', '/flows')).json()
  expect(back).toBe('http://127.0.0.1:3000/dashboard')
})

test('the page of the flows shows the same health of a flow', async () => {
  const health = async () =>
    (await saturday.side.call('GET', '/flows', { headers: { 'accept-language': 'en' } })).json()
      .flows[0].health
  await expect.poll(health, { timeout: 20_000, interval: 50 }).toMatchObject({
    state: 'attention',
    cause: 'destination_failing',
    message: expect.stringMatching(/sending is suspended.*Pending deliveries: 40/),
  })
})

/** A box that was never used is unknown, without an action. */
async function seeUnusedBox(): Promise<void> {
  expect(await box('CAJA-1')).toMatchObject({
    client: 'Sabado',
    sucursal_id: 'SUC-1',
    terminal_id: null,
    state: 'unknown',
    cause: 'never_charged',
    action: null,
  })
}

/** A box that sells is ok, and not listed among the problems. */
async function sellAtBox(): Promise<void> {
  const terminalId = await pairTerminal(service, shop, 'CAJA-5')
  await sellWell('CAJA-5')
  expect(await box('CAJA-5')).toMatchObject({
    state: 'ok',
    cause: null,
    action: null,
    message: null,
    terminal_id: terminalId,
  })
  const problems = await fleet('?only=problems', shop.key)
  expect(problems).toMatchObject({ boxes: [], connections: [] })
}

/** Three boxes are down by three causes, each with its start and an action. */
async function bringThreeBoxesDown(): Promise<void> {
  const since = service.clock.now()
  const { standalone } = await refuseThreeBoxes(service, saturday)

  const { boxes: down } = await fleet('?only=problems')
  expect(down).toMatchObject([
    { caja_id: 'CAJA-1', state: 'down', cause: 'terminal_standalone', action: 'set_pdv' },
    { caja_id: 'CAJA-2', state: 'down', cause: 'terminal_missing', action: 'pair_terminal' },
    { caja_id: 'CAJA-3', state: 'down', cause: 'terminal_busy', action: 'free_terminal' },
  ])
  for (const one of down) {
    expect(Date.parse(one.since)).toBeGreaterThanOrEqual(since.getTime())
    expect(one.message).toMatch(/^(The|No) terminal .+/)
  }

  // Listing the terminals or changing their mode updates the state of a box too.
  await call(service, { url: '/terminals', token: shop.key })
  expect(await box('CAJA-1')).toMatchObject({ state: 'down', terminal_id: standalone })
  await call(service, {
    method: 'PATCH',
    url: '/terminals/operating-mode',
    token: shop.key,
    body: { caja_id: 'CAJA-1', operating_mode: 'PDV' },
  })
  expect(await box('CAJA-1')).toMatchObject({ state: 'unknown', cause: 'never_charged' })
  await sellWell('CAJA-1')
  expect(await box('CAJA-1')).toMatchObject({ state: 'ok', cause: null })
}

/** The overview limited to one box still lists every box with a problem, like the fleet and the statistics. */
async function readOverview(): Promise<void> {
  const from = new Date(service.clock.now().getTime() - 3_600_000).toISOString()
  const read = async (url: string) => {
    const answer = await asAdmin(service, { url, headers: { 'accept-language': 'en' } })
    expect(answer.statusCode, answer.body).toBe(200)
    return answer.json()
  }
  type Box = { caja_id: string; health?: { state: string; cause: string | null } }
  const ids = (boxes: Box[]) => boxes.map(({ caja_id: id }) => id)
  const problems = await fleet('?only=problems')
  const { boxes: all, paid } = await read(`/admin/statistics?from=${from}`)
  const few = await read(`/overview?from=${from}&most_boxes=1`)
  const whole = await read(`/overview?from=${from}`)

  expect(few).toMatchObject({ paid, box_counts: { total: all.length } })
  expect(ids(few.boxes).toSorted()).toEqual(ids(problems.boxes).toSorted())
  expect(ids(whole.boxes)).toEqual(ids(all))
  for (const { caja_id: id, state, cause } of problems.boxes) {
    const listed = whole.boxes.find((one: Box) => one.caja_id === id)
    expect(listed.health).toMatchObject({ state, cause })
  }
  expect(whole.box_counts.ok).toBe(
    whole.boxes.filter(({ health }: Box) => health?.state === 'ok').length,
  )
}

/** A terminal that is switched off is detected within 30 s of its first charge, and the cashier message says so. */
async function switchTerminalOff(): Promise<void> {
  await pairTerminal(service, shop, 'CAJA-4')
  const sold = await sell('CAJA-4')
  const read = () =>
    call(service, {
      url: `/orders/${sold.json().order_id}`,
      token: shop.key,
      headers: { 'accept-language': 'en' },
    })
  for (let seconds = 0; seconds < 16; seconds += 2) {
    service.clock.advance(2_000)
    await service.sweeper.sweepOnce()
  }
  expect(await box('CAJA-4')).toMatchObject({ state: 'ok' })
  for (let seconds = 0; seconds < 10; seconds += 2) {
    service.clock.advance(2_000)
    await service.sweeper.sweepOnce()
  }
  expect(await box('CAJA-4')).toMatchObject({
    state: 'down',
    cause: 'terminal_silent',
    action: 'check_terminal_power',
    since: expect.any(String),
  })
  expect((await read()).json().cashier).toMatchObject({
    message: expect.stringMatching(/has not answered for \d+ seconds.* another box/),
    action: 'look_at_terminal',
  })
  await service.deps.fleet.tick()
  const again = await sell('CAJA-4')
  expect(again.json()).toMatchObject({
    code: 'TERMINAL_BUSY',
    error: expect.stringMatching(/has not answered for \d+ seconds.*another box/),
  })

  await act(service, sold.json().order_id, payByCard)
  await read()
  expect(await box('CAJA-4')).toMatchObject({ state: 'ok' })
}

/** When the provider fails at the charges of two boxes, every box is down for it, until it accepts a charge. */
async function failAtProvider(): Promise<void> {
  service.clock.advance(1_000)
  await setFaults(service, { path: '/v1/orders', method: 'POST', kind: 'status', status: 503 })
  await sell('CAJA-5')
  await sell('CAJA-4')
  await clearFaults(service)
  const { boxes: all } = await fleet()
  const causes = all.map(({ state, cause }: { state: string; cause: string }) => [state, cause])
  expect(causes).toContainEqual(['down', 'provider_failing'])
  expect(all.filter(({ state }: { state: string }) => state !== 'down')).toEqual([])
}

/** A client reads its own boxes and connection, and no flow. */
async function openOtherClient(): Promise<void> {
  const other = await openShop(service, 'Otra', '7702')
  // From here on it is known since when its box is as it is.
  await service.deps.fleet.tick()
  const own = await fleet('', other.key)
  expect(own.boxes.map(({ client }: { client: string }) => client)).toEqual(['Otra'])
  expect(own.connections).toMatchObject([{ client: 'Otra', state: 'ok' }])
  expect(own.flows).toEqual([])
  // A message contains the duration of the state, which changes between the two answers.
  const withoutAge = (boxes: { message: string | null }[]) =>
    boxes.map((box) => ({ ...box, message: box.message?.replace(/ for \d+ \w+/, '') ?? null }))
  expect(withoutAge((await fleet('?client=Otra')).boxes)).toEqual(withoutAge(own.boxes))
  const url = '/health/fleet?client=Sabado'
  expect((await call(service, { url, token: other.key })).statusCode).toBe(403)
  expect((await call(service, { url: '/health/fleet' })).statusCode).toBe(401)
}

/** Every change of a state is stored once, by one process at a time, in the order of the changes. */
async function keepChanges(): Promise<void> {
  const duplicate = await startTestService({ twinOf: service })
  try {
    expect(await service.deps.fleet.tick()).toBe(true)
    expect(await duplicate.deps.fleet.tick()).toBe(false)
    const first = await duplicate.deps.fleet.changesAfter(0, 1000)
    expect(first).toContainEqual(
      expect.objectContaining({
        subject: { kind: 'box', scope: 'Sabado', name: 'CAJA-2' },
        from: null,
        to: expect.objectContaining({ state: 'down', cause: 'terminal_missing' }),
      }),
    )
    const until = await duplicate.deps.fleet.lastChange()
    await service.deps.fleet.tick()
    expect(await duplicate.deps.fleet.changesAfter(until, 1000)).toEqual([])

    await pairTerminal(service, shop, 'CAJA-2')
    service.clock.advance(11_000)
    await clearFaults(service)
    for (let sales = 0; sales < 10; sales += 1) await sellWell('CAJA-2')
    await service.deps.fleet.flush()
    expect(await duplicate.deps.fleet.tick()).toBe(true)
    expect(await service.deps.fleet.changesAfter(until, 1000)).toContainEqual(
      expect.objectContaining({
        subject: { kind: 'box', scope: 'Sabado', name: 'CAJA-2' },
        from: { state: 'down', cause: 'terminal_missing' },
        to: expect.objectContaining({ state: 'ok', cause: null }),
      }),
    )
    expect(service.deps.fleet.troubleOf('Sabado' as never, 'CAJA-2')).toMatchObject({
      cause: 'terminal_missing',
    })
    await service.deps.fleet.tick()
    expect(service.deps.fleet.troubleOf('Sabado' as never, 'CAJA-2')).toBeUndefined()
  } finally {
    await duplicate.stop()
  }
}

/** The history lists changes, newest first, and for a client its own only. */
async function readHistory(): Promise<void> {
  const read = async (query = '', token?: string) => {
    const request = { url: `/health/fleet/changes${query}`, headers: { 'accept-language': 'en' } }
    const answer = token
      ? await call(service, { ...request, token })
      : await asAdmin(service, request)
    expect(answer.statusCode, answer.body).toBe(200)
    return answer.json()
  }
  const { changes } = await read('?caja_id=CAJA-2', shop.key)
  expect(changes[0]).toMatchObject({
    kind: 'box',
    client: 'Sabado',
    name: 'CAJA-2',
    from: { state: 'down', cause: 'terminal_missing' },
    to: { state: 'ok', cause: null },
    message: null,
  })

  const all = (await read()).changes
  const ids = all.map(({ id }: { id: number }) => id)
  expect(ids).toEqual(ids.toSorted((a: number, b: number) => b - a))
  const first = await read('?limit=1')
  expect(first).toMatchObject({ changes: [all[0]], next_before: all[0].id })
  expect((await read(`?limit=200&before=${first.next_before}`)).changes).toEqual(all.slice(1))

  const own = (await read('', shop.key)).changes
  expect(own.length).toBeGreaterThan(0)
  for (const { kind, client } of own) {
    expect(['box', 'connection']).toContain(kind)
    expect(client).toBe('Sabado')
  }
  const [other] = (await fleet()).connections.filter(
    ({ client }: { client: string }) => client === 'Otra',
  )
  expect(other).toBeDefined()
  expect((await read('?client=Otra&caja_id=CAJA-2')).changes).toEqual([])
  expect((await read('?client=Sabado')).changes).toEqual(own)
}
