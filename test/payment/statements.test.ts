import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { cancel, deliver, openOwnShop, orderRow, refund } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { countStatements } from '../support/statements.ts'
import { act, charge, payByCard, readOrder, type Till } from '../support/till.ts'

/** How many statements a request takes: each is a round trip, transaction control included. */
const atMost = {
  charge: 9,
  read: 3,
  cancel: 10,
  refund: 12,
  webhook: { beforeAnswer: 1, work: 4, freshWork: 2 },
}

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

/** A shop that has sold before, so that statements made once per process or shop are not counted. */
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

/** The message lists the statements, so that a failure shows which one is too many. */
function expectAtMost(most: number, statements: readonly string[]): void {
  const lines = statements.map((sql, index) => `${index + 1}. ${sql}`)
  expect(statements.length, lines.join('\n')).toBeLessThanOrEqual(most)
  expect(statements.length).toBeGreaterThan(0)
}

test(`a charge takes at most ${atMost.charge} statements`, async () => {
  const till = await openBusyShop('Contador')
  expectAtMost(atMost.charge, await countStatements(() => charged(till, 'a charge')))
})

test(`a read that finds no change takes at most ${atMost.read} statements`, async () => {
  const till = await openBusyShop('Lector')
  const orderId = await charged(till, 'a read')
  const own = await countStatements(async () => {
    expect((await readOrder(service, till, orderId)).statusCode).toBe(200)
  })
  expectAtMost(atMost.read, own)
})

test(`a cancel takes at most ${atMost.cancel} statements`, async () => {
  const till = await openBusyShop('Cancelador')
  const orderId = await charged(till, 'a cancel')
  const own = await countStatements(async () => {
    const answer = await cancel(service, till, orderId)
    expect(answer.statusCode, answer.body).toBe(200)
  })
  expectAtMost(atMost.cancel, own)
})

test(`a refund takes at most ${atMost.refund} statements`, async () => {
  const till = await openBusyShop('Devolvedor')
  const orderId = await paid(till, 'a refund')
  const own = await countStatements(async () => {
    const answer = await refund(service, till, orderId)
    expect(answer.statusCode, answer.body).toBe(200)
  })
  expectAtMost(atMost.refund, own)
})

/** A paid order whose webhook has not come yet: our id and the provider's. */
async function paidWithoutWebhook(till: Till, reference: string) {
  const orderId = await charged(till, reference)
  await act(service, orderId, payByCard)
  return { orderId, dataId: String((await orderRow(service, orderId)).mp_order_id) }
}

test(`a webhook takes at most ${atMost.webhook.beforeAnswer} statements before its answer, and ${atMost.webhook.freshWork} to process it`, async () => {
  const till = await openBusyShop('Avisado')
  const { orderId, dataId } = await paidWithoutWebhook(till, 'a webhook')
  const own = await countStatements(async () => {
    expect((await deliver(service, { dataId })).statusCode).toBe(200)
  })
  expect((await orderRow(service, orderId)).status).toBe('processed')
  // Processing begins with the query for its order.
  const work = own.findIndex((sql) => /oauth_connections c on c.client = orders.client/i.test(sql))
  expectAtMost(atMost.webhook.beforeAnswer, own.slice(0, work))
  expectAtMost(atMost.webhook.freshWork, own.slice(work))
})

test(`processing a webhook that has waited takes at most ${atMost.webhook.work} statements`, async () => {
  const till = await openBusyShop('Avisado tarde')
  await deliver(service, await paidWithoutWebhook(till, 'another webhook'))
  const { orderId, dataId } = await paidWithoutWebhook(till, 'a webhook that waits')
  await sql`insert into webhook_log (id, signature_valid, status, resource_id, received_at, next_attempt_at)
    values (gen_random_uuid(), true, 'received', ${dataId}, now(), ${service.clock.now()})`.execute(
    service.database.db,
  )
  const own = await countStatements(() => service.inbox.workDue())
  expect((await orderRow(service, orderId)).status).toBe('processed')
  // The inbox waits for webhooks that end at almost the same time and queries once more; here it does so twice.
  const distinct = own.filter((statement, place) => statement !== own[place - 1])
  expectAtMost(atMost.webhook.work, distinct)
})

test('a burst of webhooks takes no lease that it gives back unused', {
  tags: ['long'],
}, async () => {
  const till = await openBusyShop('Inundado')
  const webhooks: Awaited<ReturnType<typeof paidWithoutWebhook>>[] = []
  for (let index = 0; index < 30; index += 1)
    webhooks.push(await paidWithoutWebhook(till, `flood ${index}`))
  const own = await countStatements(async () => {
    await Promise.all(webhooks.map((one) => deliver(service, one)))
  })
  const releases = own.filter((text) => /update "?webhook_log"? set "?next_attempt_at/.test(text))
  expect(releases).toEqual([])
})
