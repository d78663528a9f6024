import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Sandbox } from '../../sandbox/server.ts'
import { signatureManifest, signManifest } from '../../sandbox/webhook-signing.ts'
import {
  act,
  call,
  createClock,
  createOrder,
  openShop,
  paidOrder,
  type Received,
  refund,
  type Shop,
  startReceiver,
  startTestSandbox,
} from './support.ts'

let clock: ReturnType<typeof createClock>
let receiver: Awaited<ReturnType<typeof startReceiver>>
let sandbox: Sandbox
let shop: Shop

beforeEach(async () => {
  clock = createClock()
  receiver = await startReceiver()
  sandbox = await startTestSandbox({ now: clock.now, webhookUrl: receiver.url })
  shop = await openShop(sandbox)
})
afterEach(async () => {
  await sandbox.close()
  await receiver.close()
})

function put(path: string, body: unknown) {
  return call(sandbox, 'PUT', path, { body })
}

/** True when the sandbox's own secret signed this delivery for `dataId`. */
function signed({ headers }: Received, dataId: string, secret = sandbox.info.webhook_secrets[0]) {
  const [, ts, v1] = /^ts=(\d+),v1=(.+)$/.exec(String(headers['x-signature'])) ?? []
  const manifest = signatureManifest(dataId, String(headers['x-request-id']), ts ?? '')
  return signManifest(secret ?? '', manifest) === v1
}

/** The sandbox has the answers to this many attempts. */
async function attempted(count: number) {
  const attempts = async () => (await call(sandbox, 'GET', '/_sandbox/webhooks')).body.deliveries
  await expect.poll(attempts).toHaveLength(count)
}

/** Waits so that a wrong webhook would arrive, before a test expects none. */
async function settled() {
  await new Promise((resolve) => setTimeout(resolve, 30))
  return receiver.received
}

describe('bodies', () => {
  it('sends order.processed with payment, method and reference, and nothing before', async () => {
    const { id, paymentId } = await paidOrder(sandbox, shop, '1234.50', {
      payment_method_type: 'credit_card',
      payment_method_id: 'master',
      installments: 3,
    })
    const [hook] = await receiver.until(1)
    expect(await settled()).toHaveLength(1)
    expect(hook?.url.href).toBe(`http://receiver/webhooks?data.id=${id}&type=order`)
    expect(hook?.headers).toMatchObject({ 'content-type': 'application/json', 'x-retry': '0' })
    expect(hook?.body).toEqual({
      action: 'order.processed',
      api_version: 'v1',
      application_id: sandbox.info.client_id,
      data: {
        external_reference: 'TCK-0001',
        id,
        status: 'processed',
        status_detail: 'accredited',
        total_paid_amount: '1234.50',
        transactions: {
          payments: [
            {
              amount: '1234.50',
              id: paymentId,
              paid_amount: '1234.50',
              payment_method: { id: 'master', installments: 3, type: 'credit_card' },
              reference: { id: expect.stringMatching(/^\d+$/) },
              status: 'processed',
              status_detail: 'accredited',
            },
          ],
        },
        type: 'point',
        version: 3,
      },
      date_created: expect.stringMatching(/^2026-11-20T14:00:00\.\d{9}Z$/),
      live_mode: false,
      type: 'order',
      user_id: String(shop.userId),
    })
  })

  it.each([
    [{ do: 'cancel' }, 'order.canceled', 'canceled', ['id', 'amount', 'status', 'status_detail']],
    [{ do: 'expire' }, 'order.expired', 'expired', ['id', 'amount', 'status', 'status_detail']],
    [
      { do: 'decline', status_detail: 'high_risk' },
      'order.failed',
      'failed',
      ['id', 'amount', 'status', 'status_detail', 'payment_method', 'reference'],
    ],
    [{ do: 'hold' }, 'order.action_required', 'check_on_terminal', undefined],
  ])('after %o sends %s', async (deed, action, detail, members) => {
    const { body } = await createOrder(sandbox, shop)
    await act(sandbox, body.id, deed)
    const [hook] = await receiver.until(1)
    expect(hook?.body.action).toBe(action)
    expect(hook?.body.data.status_detail).toBe(detail)
    const payment = hook?.body.data.transactions?.payments[0]
    const names = payment === undefined ? undefined : Object.keys(payment).sort()
    expect(names).toEqual(members?.sort())
  })

  it('sends order.refunded for a part and for the whole, with different statuses', async () => {
    const { id, paymentId } = await paidOrder(sandbox, shop, '10.00')
    await refund(sandbox, shop, id, { body: { transactions: [{ id: paymentId, amount: '4.00' }] } })
    await refund(sandbox, shop, id)
    const hooks = await receiver.until(2, ({ body }) => body.action === 'order.refunded')
    const shown = hooks.map(({ body: { data } }) => [data.version, data.status, data.status_detail])
    expect(shown.sort()).toEqual([
      [4, 'processed', 'partially_refunded'],
      [5, 'refunded', 'refunded'],
    ])
    expect(hooks[0]?.body.data.total_paid_amount).toBe('10.00')
    expect(hooks[0]?.body.data).not.toHaveProperty('transactions')
  })

  it('makes none while no address is set, also not later', async () => {
    await put('/_sandbox/webhooks', { url: null })
    await paidOrder(sandbox, shop)
    await put('/_sandbox/webhooks', { url: receiver.url })
    expect(await settled()).toEqual([])
  })

  it('sends a topic by hand', async () => {
    const body = { action: 'payment.updated', data: { id: '115' }, type: 'payment' }
    await call(sandbox, 'POST', '/_sandbox/webhooks', {
      body: { type: 'payment', data_id: '115', body },
    })
    const [hook] = await receiver.until(1)
    expect(hook?.url.search).toBe('?data.id=115&type=payment')
    expect(hook?.body).toEqual(body)
  })
})

describe('signature', () => {
  it('takes the lower-case id and milliseconds, and on request the other forms', async () => {
    const first = await paidOrder(sandbox, shop)
    const [usual] = await receiver.until(1)
    if (usual === undefined) throw new Error('no webhook')
    expect(signed(usual, first.id.toLowerCase())).toBe(true)
    expect(String(usual.headers['x-signature'])).toMatch(/^ts=\d{13},/)
    await put('/_sandbox/webhooks', { case: 'as_received', ts_unit: 's' })
    const second = await paidOrder(sandbox, shop)
    const [, other] = await receiver.until(2)
    if (other === undefined) throw new Error('no webhook')
    expect(signed(other, second.id)).toBe(true)
    expect(String(other.headers['x-signature'])).toMatch(/^ts=\d{10},/)
    await put('/_sandbox/webhooks', { secret: 'wrong' })
    const third = await paidOrder(sandbox, shop)
    const [, , wrong] = await receiver.until(3)
    if (wrong === undefined) throw new Error('no webhook')
    expect(signed(wrong, third.id)).toBe(false)
  })
})

describe('delivery', () => {
  it('tries again at the set times until a 200', async () => {
    await sandbox.close()
    await receiver.close()
    receiver = await startReceiver([500, 404])
    sandbox = await startTestSandbox({
      now: clock.now,
      webhookUrl: receiver.url,
      webhookRetryMs: [1000, 5000],
    })
    shop = await openShop(sandbox)
    const { id } = await paidOrder(sandbox, shop)
    await receiver.until(1)
    // The delay counts from the failure at the sandbox.
    await attempted(1)
    expect(sandbox.ledger().webhooks_pending).toBe(1)
    clock.advance(999)
    await runLoop()
    expect(await settled()).toHaveLength(1)
    clock.advance(1)
    await runLoop()
    await receiver.until(2)
    await attempted(2)
    clock.advance(5000)
    await runLoop()
    const hooks = await receiver.until(3)
    expect(hooks.map(({ headers }) => headers['x-retry'])).toEqual(['0', '1', '2'])
    expect(new Set(hooks.map(({ headers }) => headers['x-request-id'])).size).toBe(1)
    expect(hooks.every((hook) => signed(hook, id.toLowerCase()))).toBe(true)
    clock.advance(86_400_000)
    await runLoop()
    expect(await settled()).toHaveLength(3)
    expect(sandbox.ledger().webhooks_pending).toBe(0)
  })

  /** The timer waits for real time; after `advance` the loop must run once. */
  function runLoop() {
    return put('/_sandbox/pace', {})
  }

  it('survives an unreachable service and a flush brings the webhook forward', async () => {
    await receiver.close()
    await paidOrder(sandbox, shop)
    await settled()
    expect(sandbox.ledger().webhooks_pending).toBe(1)
    receiver = await startReceiver()
    await put('/_sandbox/webhooks', { url: receiver.url })
    await call(sandbox, 'POST', '/_sandbox/webhooks/flush')
    await receiver.until(1)
  })
})

describe('faults', () => {
  const setRules = (rule: object) => put('/_sandbox/faults', [{ count: 1, ...rule }])

  it('does not send one', async () => {
    await setRules({ kind: 'missing', path: 'order.processed' })
    await paidOrder(sandbox, shop)
    const second = await paidOrder(sandbox, shop)
    const [hook] = await receiver.until(1)
    expect(hook?.body.data.id).toBe(second.id)
    expect(await settled()).toHaveLength(1)
  })

  it('sends one twice, each with its own request id', async () => {
    await setRules({ kind: 'duplicate' })
    await paidOrder(sandbox, shop)
    const hooks = await receiver.until(2)
    expect(hooks[0]?.body).toEqual(hooks[1]?.body)
    expect(hooks[0]?.headers['x-request-id']).not.toBe(hooks[1]?.headers['x-request-id'])
  })

  it('signs one with a wrong secret', async () => {
    await setRules({ kind: 'bad_signature' })
    const { id } = await paidOrder(sandbox, shop)
    const [hook] = await receiver.until(1)
    if (hook === undefined) throw new Error('no webhook')
    expect(signed(hook, id.toLowerCase())).toBe(false)
  })

  it('sends one late', async () => {
    await setRules({ kind: 'late', delay_ms: 60_000 })
    await paidOrder(sandbox, shop)
    expect(await settled()).toEqual([])
    clock.advance(60_000)
    await put('/_sandbox/pace', {})
    await receiver.until(1)
  })

  it('sends a later one first', async () => {
    await setRules({ kind: 'reorder', path: 'order.processed' })
    const { id } = await paidOrder(sandbox, shop)
    expect(await settled()).toEqual([])
    await refund(sandbox, shop, id)
    const hooks = await receiver.until(2)
    expect(hooks.map(({ body }) => body.action)).toEqual(['order.refunded', 'order.processed'])
  })
})
