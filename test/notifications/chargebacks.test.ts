import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { sell, watchAfter } from '../closings/shop-day.ts'
import { deliver, openOwnShop, orderRow } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { sandboxCall, type Till } from '../support/till.ts'
import { openHttpReceiver, openMailReceiver } from './receivers.ts'

/** Three notifications of a charge-back, each once: when it is found, some days before its documents are due, at its decision. */
let service: TestService
let hook: Awaited<ReturnType<typeof openHttpReceiver>>
let smtp: Awaited<ReturnType<typeof openMailReceiver>>

beforeAll(async () => {
  hook = await openHttpReceiver()
  smtp = await openMailReceiver()
  service = await startTestService({
    env: {
      ALERT_MAIL_TO: 'jefa@shop.example',
      ALERT_WEBHOOK_URL: hook.url,
      ALERT_PRIVATE_NETWORK: 'true',
      ALERT_LANGUAGE: 'es',
      SMTP_URL: smtp.url,
      MAIL_FROM: 'alerts@shop.example',
    },
  })
})
beforeEach(() => {
  hook.reset()
  smtp.mails.length = 0
})
afterAll(async () => {
  await service.stop()
  await Promise.all([hook.close(), smtp.close()])
})

const dayMs = 86_400_000

type ReceivedEvent = {
  type: string
  data: { chargebacks: { case_id: string | null; state: string }[] }
}

function received(): string[] {
  return hook
    .bodies()
    .filter(({ type }: ReceivedEvent) => type.startsWith('chargebacks.'))
    .flatMap(({ type, data }: ReceivedEvent) =>
      data.chargebacks.map((one) => `${type} ${one.state}`),
    )
}

/** Runs the check twice, since messages are grouped for ten seconds. */
async function pass(ms: number): Promise<void> {
  await watchAfter(service, ms)
  await service.notifications.checkOnce()
  service.clock.advance(15_000)
  await service.notifications.checkOnce()
}

async function openCase(client: string, body: object = {}): Promise<{ till: Till; id: string }> {
  const till = await openOwnShop(service, client)
  const orderId = await sell(service, till, 'A-1')
  const { mp_order_id } = await orderRow(service, orderId)
  const { id } = (await sandboxCall(service, 'POST', '/_sandbox/chargebacks', {
    order_id: mp_order_id,
    ...body,
  })) as { id: string }
  await sendWebhook(till, id)
  return { till, id }
}

const sendWebhook = (till: Till, id: string) =>
  deliver(service, {
    dataId: id,
    type: 'topic_chargebacks_wh',
    body: { type: 'topic_chargebacks_wh', user_id: till.mpUserId },
  })

const decide = (id: string, body: object) =>
  sandboxCall(service, 'POST', `/_sandbox/chargebacks/${id}/act`, body)

test('a charge-back is notified when it is opened, before its documents are due, and when it is decided', {
  tags: ['long'],
}, async () => {
  const { till, id } = await openCase('three messages')
  await pass(1_000)
  expect(received()).toEqual(['chargebacks.opened open'])
  const [mail] = smtp.mails
  expect(mail?.head).toContain('three messages, caja CAJA-1: 1 contracargo nuevo')
  expect(mail?.text).toContain(`caso ${id}, $ 1000,00: abierto, documentos hasta `)
  expect(mail?.text).toContain('GET /chargebacks')
  await pass(3 * dayMs)
  expect(received()).toHaveLength(1)
  await pass(dayMs + 60_000)
  expect(received()).toEqual(['chargebacks.opened open', 'chargebacks.documents_due open'])
  await pass(60_000)
  expect(received()).toHaveLength(2)
  await decide(id, { do: 'win' })
  await sendWebhook(till, id)
  await pass(1_000)
  expect(received()).toEqual([
    'chargebacks.opened open',
    'chargebacks.documents_due open',
    'chargebacks.decided won',
  ])
  expect(smtp.mails.at(-1)?.text).toContain('ganado: el comercio conserva el dinero')
  await pass(10 * dayMs)
  expect(received()).toHaveLength(3)
})

test('a changed deadline is notified again, but not after the documents were handed in', {
  tags: ['long'],
}, async () => {
  const soon = () => new Date(service.clock.now().getTime() + dayMs).toISOString()
  const { till, id } = await openCase('moved deadline', { deadline: soon() })
  await pass(1_000)
  expect(received()).toEqual(['chargebacks.opened open'])
  await decide(id, { do: 'deadline', deadline: soon() })
  await sendWebhook(till, id)
  await pass(1_000)
  expect(received()).toEqual(['chargebacks.opened open', 'chargebacks.documents_due open'])
  await decide(id, { do: 'deadline', deadline: soon() })
  await decide(id, { do: 'documentation', status: 'review_pending' })
  await sendWebhook(till, id)
  await pass(1_000)
  expect(received()).toHaveLength(2)
})

test('a charge-back that is decided before its notification is notified once, with the decision', {
  tags: ['long'],
}, async () => {
  const { till, id } = await openCase('late find')
  await decide(id, { do: 'lose' })
  await sendWebhook(till, id)
  await pass(1_000)
  expect(received()).toEqual(['chargebacks.opened lost'])
})

test('a charge-back whose case cannot be read is notified, too', { tags: ['long'] }, async () => {
  const till = await openOwnShop(service, 'no case')
  const orderId = await sell(service, till, 'A-1')
  const { mp_order_id } = await orderRow(service, orderId)
  const { id } = (await sandboxCall(service, 'POST', '/_sandbox/chargebacks', {
    order_id: mp_order_id,
  })) as { id: string }
  await sandboxCall(service, 'PUT', '/_sandbox/faults', [{ path: '^/v1/chargebacks', kind: '500' }])
  await pass(10 * 60_000)
  await sandboxCall(service, 'DELETE', '/_sandbox/faults')
  expect(received()).toEqual(['chargebacks.opened unknown'])
  // Its documents are not due in another test.
  await decide(id, { do: 'lose' })
  await pass(3_600_000)
})
