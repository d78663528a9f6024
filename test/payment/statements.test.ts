import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { cancel, deliver, openOwnShop, orderRow, refund } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { countStatements } from '../support/statements.ts'
import { act, charge, payByCard, readOrder, type Till } from '../support/till.ts'

/** What a request costs the database: every statement is a round trip, transaction control included. */
const atMost = {
  charge: 9,
  read: 3,
  cancel: 10,
  refund: 12,
  webhook: { beforeAnswer: 2, work: 5, freshWork: 3 },
}

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

/** A shop that has sold before, so that nothing is counted which is asked once per process or shop. */
async function openBusyShop(name: string): Promise<Till> {
  const till = await openOwnShop(service, name)
  await refund(service, till, await paid(till, 'before'))
  return till
}

async function charged(till: Till, reference: string): Promise<string> {
  const answer = await charge(service, till, { reference })
  expect(answer.statusCode, answer.body).toBe(201)
  return answer.json().order_id
}

async function paid(till: Till, reference: string): Promise<string> {
  const orderId = await charged(till, reference)
  await act(service, orderId, payByCard)
  const answer = await readOrder(service, till, orderId)
  expect(answer.json().status).toBe('processed')
  return orderId
}

/** With the statements as the message, since a number alone does not tell which one is too many. */
function expectAtMost(most: number, statements: readonly string[]): void {
  const lines = statements.map((sql, index) => `${index + 1}. ${sql}`)
  expect(statements.length, lines.join('\n')).toBeLessThanOrEqual(most)
  expect(statements.length).toBeGreaterThan(0)
}

test(`a charge takes ${atMost.charge} statements at most`, async () => {
  const till = await openBusyShop('Contador')
  expectAtMost(atMost.charge, await countStatements(() => charged(till, 'a charge')))
})

test(`a read that finds nothing new takes ${atMost.read} statements at most`, async () => {
  const till = await openBusyShop('Lector')
  const orderId = await charged(till, 'a read')
  const own = await countStatements(async () => {
    expect((await readOrder(service, till, orderId)).statusCode).toBe(200)
  })
  expectAtMost(atMost.read, own)
})

test(`a cancel takes ${atMost.cancel} statements at most`, async () => {
  const till = await openBusyShop('Cancelador')
  const orderId = await charged(till, 'a cancel')
  const own = await countStatements(async () => {
    const answer = await cancel(service, till, orderId)
    expect(answer.statusCode, answer.body).toBe(200)
  })
  expectAtMost(atMost.cancel, own)
})

test(`a refund takes ${atMost.refund} statements at most`, async () => {
  const till = await openBusyShop('Devolvedor')
  const orderId = await paid(till, 'a refund')
  const own = await countStatements(async () => {
    const answer = await refund(service, till, orderId)
    expect(answer.statusCode, answer.body).toBe(200)
  })
  expectAtMost(atMost.refund, own)
})

/** A paid order of which no webhook has told yet: our number and the provider's. */
async function paidUntold(till: Till, reference: string) {
  const orderId = await charged(till, reference)
  await act(service, orderId, payByCard)
  return { orderId, dataId: String((await orderRow(service, orderId)).mp_order_id) }
}

test(`a webhook takes ${atMost.webhook.beforeAnswer} statements before its answer, and ${atMost.webhook.freshWork} for its work, at most`, async () => {
  const till = await openBusyShop('Avisado')
  const { orderId, dataId } = await paidUntold(till, 'a webhook')
  const own = await countStatements(async () => {
    expect((await deliver(service, { dataId })).statusCode).toBe(200)
  })
  expect((await orderRow(service, orderId)).status).toBe('processed')
  // The work begins with the look for its order.
  const work = own.findIndex((sql) => /oauth_connections c on c.client = orders.client/i.test(sql))
  expectAtMost(atMost.webhook.beforeAnswer, own.slice(0, work))
  expectAtMost(atMost.webhook.freshWork, own.slice(work))
})

test(`a webhook that has waited takes ${atMost.webhook.work} statements for its work at most`, async () => {
  const till = await openBusyShop('Avisado tarde')
  await deliver(service, await paidUntold(till, 'another webhook'))
  const { orderId, dataId } = await paidUntold(till, 'a webhook that waits')
  await sql`insert into webhook_log (id, delivery_key, signature_valid, status, resource_id, received_at, next_attempt_at)
    values (gen_random_uuid(), 'waited', true, 'received', ${dataId}, now(), ${service.clock.now()})`.execute(
    service.database.db,
  )
  const own = await countStatements(() => service.inbox.workDue())
  expect((await orderRow(service, orderId)).status).toBe('processed')
  // By itself the inbox waits for what ends at almost the same time, and looks for more once; this does so twice.
  const looks = own.filter((statement, place) => statement !== own[place - 1])
  expectAtMost(atMost.webhook.work, looks)
})

test('of a flood of webhooks nothing is claimed only to be given back', async () => {
  const till = await openBusyShop('Inundado')
  const told: Awaited<ReturnType<typeof paidUntold>>[] = []
  for (let index = 0; index < 30; index += 1) told.push(await paidUntold(till, `flood ${index}`))
  const own = await countStatements(async () => {
    await Promise.all(told.map((one) => deliver(service, one)))
  })
  const releases = own.filter((text) => /update "?webhook_log"? set "?next_attempt_at/.test(text))
  expect(releases).toEqual([])
})
