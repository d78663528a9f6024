import { createRequire } from 'node:module'
import { MercadoPagoConfig, OAuth, Order, User, WebhookSignatureValidator } from 'mercadopago'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Sandbox } from '../../sandbox/server.ts'
import {
  act,
  approve,
  newKey,
  openShop,
  orderBody,
  redirectUri,
  type Shop,
  startReceiver,
  startTestSandbox,
  verifier,
} from './support.ts'

// The SDK has no option for its address, only this field.
const { AppConfig } = createRequire(import.meta.url)('mercadopago/dist/utils/config') as {
  AppConfig: { BASE_URL: string }
}
const realUrl = AppConfig.BASE_URL

let sandbox: Sandbox
let shop: Shop
let receiver: Awaited<ReturnType<typeof startReceiver>>

beforeAll(async () => {
  receiver = await startReceiver()
  sandbox = await startTestSandbox({ webhookUrl: `${receiver.url}?client=tienda` })
  AppConfig.BASE_URL = sandbox.url
  shop = await openShop(sandbox)
})

afterAll(async () => {
  AppConfig.BASE_URL = realUrl
  await sandbox.close()
  await receiver.close()
})

/** The SDK writes options of one call into its config, so each call needs a new one. */
function config(accessToken = shop.token): MercadoPagoConfig {
  return new MercadoPagoConfig({ accessToken, options: { timeout: 5000, maxRetries: 0 } })
}

// biome-ignore lint/suspicious/noExplicitAny: the SDK's types have no Point orders
const untyped = (value: unknown): any => value

async function sdkOrder(amount: string): Promise<{ id: string; paymentId: string }> {
  const order = await new Order(config()).create({
    body: untyped(orderBody(shop, amount)),
    requestOptions: { idempotencyKey: newKey() },
  })
  const payment = order.transactions?.payments?.[0]
  return { id: order.id ?? '', paymentId: payment?.id ?? '' }
}

it('exchanges a code with its verifier and renews the token through the SDK', async () => {
  const { client_id, client_secret } = sandbox.info
  const code = await approve(sandbox, shop.userId)
  const first = await new OAuth(config('none')).create({
    body: untyped({
      client_id,
      client_secret,
      code,
      redirect_uri: redirectUri,
      code_verifier: verifier,
    }),
  })
  expect(first).toMatchObject({ user_id: shop.userId, live_mode: false, expires_in: 15_552_000 })
  const second = await new OAuth(config('none')).refresh({
    body: { client_id, client_secret, refresh_token: first.refresh_token ?? '' },
  })
  expect(second.refresh_token).not.toBe(first.refresh_token)
  const me = await new User(config(second.access_token)).get()
  expect(me.id).toBe(shop.userId)
  expect(me.site_id).toBe('MLA')
})

it('creates, reads, finds and cancels an order through the SDK', async () => {
  const { id } = await sdkOrder('10.50')
  const read = await new Order(config()).get({ id })
  expect(read).toMatchObject({ id, status: 'created', external_reference: 'TCK-0001' })
  const found = await new Order(config()).search({
    options: {
      begin_date: new Date(Date.now() - 15 * 86_400_000).toISOString(),
      end_date: new Date(Date.now() + 86_400_000).toISOString(),
      external_reference: 'TCK-0001',
    },
  })
  expect(found.data?.map((order) => order.id)).toContain(id)
  const canceled = await new Order(config()).cancel({ id })
  expect(canceled.status).toBe('canceled')
  expect(canceled.transactions?.payments?.[0]).toMatchObject({ status_detail: 'canceled_by_api' })
})

it('refunds a part and then the rest through the SDK', async () => {
  const { id, paymentId } = await sdkOrder('100.00')
  await act(sandbox, id, { do: 'pay' })
  const part = await new Order(config()).refund({
    id,
    body: { transactions: [{ id: paymentId, amount: '30.00' }] },
  })
  expect(part).toMatchObject({ status: 'processed', status_detail: 'partially_refunded' })
  const rest = await new Order(config()).refund({ id })
  expect(rest).toMatchObject({ status: 'refunded', status_detail: 'refunded' })
  expect(rest.transactions?.refunds?.map(({ amount }) => amount)).toEqual(['70.00'])
})

it('signs webhooks the way the official validator accepts', async () => {
  const { id } = await sdkOrder('77.00')
  await act(sandbox, id, { do: 'decline', status_detail: 'insufficient_amount' })
  const [delivery] = await receiver.until(1, ({ url }) => url.searchParams.get('data.id') === id)
  expect(delivery?.url.searchParams.get('client')).toBe('tienda')
  const secret = sandbox.info.webhook_secrets[0] ?? ''
  const options = {
    xSignature: String(delivery?.headers['x-signature']),
    xRequestId: String(delivery?.headers['x-request-id']),
    dataId: id.toLowerCase(),
    secret,
  }
  expect(() => WebhookSignatureValidator.validate(options)).not.toThrow()
  expect(() => WebhookSignatureValidator.validate({ ...options, dataId: id })).toThrow()
})
