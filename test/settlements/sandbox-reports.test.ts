import { afterAll, beforeAll, expect, test } from 'vitest'
import { asClientName } from '../../src/domain/client-name.ts'
import { openToken } from '../../src/payments/connection/oauth-tokens.ts'
import { openOwnShop, refund } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, charge, payByCard, readOrder, sandboxCall, type Till } from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

const dayMs = 86_400_000

async function pay(till: Till, reference: string): Promise<string> {
  const { order_id } = (await charge(service, till, { reference, amount: '1000,00' })).json()
  await act(service, order_id, { ...payByCard, installments: 3 })
  await readOrder(service, till, order_id)
  return order_id
}

/** Orders a report and downloads it, as the shop does in the provider's panel. */
async function download(
  till: Till,
  kind: string,
  config: object,
  span: { fromMs: number; toMs: number },
): Promise<string> {
  await sandboxCall(service, 'PUT', '/_sandbox/reports', { user_id: till.mpUserId, kind, config })
  const connection = await service.database.db
    .selectFrom('oauth_connections')
    .select('access_token')
    .where('mp_user_id', '=', till.mpUserId)
    .executeTakeFirstOrThrow()
  const token = openToken(
    service.deps,
    asClientName(till.client),
    'access_token',
    connection.access_token,
  )
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const base = `${service.sandbox.url}/v1/account/${kind}_report`
  const date = (ms: number) => new Date(ms).toISOString().replace(/\.\d+/, '')
  const ordered = await fetch(base, {
    method: 'POST',
    headers,
    body: JSON.stringify({ begin_date: date(span.fromMs), end_date: date(span.toMs) }),
  })
  expect(ordered.status).toBe(202)
  const { id } = (await ordered.json()) as { id: number }
  service.clock.advance(61_000)
  const task = (await (await fetch(`${base}/task/${id}`, { headers })).json()) as {
    file_name: string
  }
  return (await fetch(`${base}/${task.file_name}`, { headers })).text()
}

const upload = (till: Till, content: string) =>
  service.app.inject({
    method: 'POST',
    url: '/settlements/files',
    headers: { 'x-api-token': till.key, 'content-type': 'text/csv' },
    payload: content,
  })

test('settlement reports of the sandbox in every format are counted once, to the cent', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'formats')
  const beganMs = service.clock.now().getTime()
  const orders = [await pay(till, 'F-1'), await pay(till, 'F-2'), await pay(till, 'F-3')]
  await refund(service, till, String(orders[0]), '250,00')
  service.clock.advance(dayMs)
  await service.paymentWatch.watchOnce()
  const span = { fromMs: beganMs - 60_000, toMs: beganMs + 2 * 3_600_000 }
  const sums = {
    gross: '2750.00',
    fee: '131.70',
    financing: '270.00',
    taxes: '48.00',
    net: '2300.30',
  }
  const forms: { json_cells?: string; separator?: string; display_timezone?: string }[] = [
    {},
    { separator: ';', display_timezone: 'GMT-03' },
    { separator: '\t', display_timezone: 'GMT+05' },
    { json_cells: 'undoubled' },
    { json_cells: 'undoubled', separator: ';' },
    { json_cells: 'doubled' },
  ]
  const listOf = {
    // Unquoted between separators.
    bare: /[,;\t]\[\{financial_entity:caba,amount:-10\.00,/,
    undoubled: /[,;]"\[\{"financial_entity":"caba","amount":"-10\.00",[^}]*\}, \{/,
    doubled: /,"\[\{""financial_entity"":""caba"",/,
  }
  for (const [at, config] of forms.entries()) {
    const file = await download(till, 'settlement', config, span)
    expect(file).toMatch(listOf[(config.json_cells ?? 'bare') as keyof typeof listOf])
    const answer = await upload(till, file)
    expect(answer.json(), answer.body).toMatchObject({
      rows: 4,
      added: at === 0 ? 4 : 0,
      changed: 0,
      without_order: 0,
      totals: sums,
    })
    expect((await upload(till, file)).json()).toMatchObject({ added: 0, known: 4 })
  }
  for (const order of orders) {
    expect((await readOrder(service, till, order)).json().net).toMatchObject({
      state: 'settled',
      fee: '43.90',
      financing: '90.00',
      unexplained: '0.00',
      net: '850.10',
    })
  }
})

test('reports that are extended to the end of their days overlap, and each movement is stored once', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'extended')
  const beganMs = service.clock.now().getTime()
  for (let day = 0; day < 4; day += 1) {
    await pay(till, `D-${day}`)
    service.clock.advance(dayMs)
  }
  let added = 0
  for (let day = 0; day < 4; day += 1) {
    const fromMs = beganMs + day * dayMs - 60_000
    const file = await download(till, 'settlement', {}, { fromMs, toMs: fromMs + dayMs })
    added += (await upload(till, file)).json().added
  }
  expect(added).toBe(4)
})

test('a release report of the sandbox settles the net of what it releases', async () => {
  const till = await openOwnShop(service, 'released')
  const beganMs = service.clock.now().getTime()
  const order = await pay(till, 'R-1')
  service.clock.advance(11 * dayMs)
  await service.paymentWatch.watchOnce()
  const file = await download(
    till,
    'release',
    { separator: ';' },
    { fromMs: beganMs, toMs: beganMs + 11 * dayMs },
  )
  expect(file).toContain('initial_available_balance')
  expect((await upload(till, file)).json()).toMatchObject({
    report: 'release',
    rows: 1,
    added: 1,
    totals: { gross: '1000.00', net: '850.10' },
  })
  expect((await readOrder(service, till, order)).json().net).toMatchObject({ net: '850.10' })
})
