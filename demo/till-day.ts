import { expectStatus, request } from './http.ts'
import type { ServiceProcess } from './service-process.ts'
import type { Steps } from './steps.ts'

const client = 'demo'
const store = 'SUC-CENTRO'
const boxes = ['CAJA-1', 'CAJA-2']
const box = 'CAJA-1'

type Charge = { orderId: string; mpOrderId: string }

/** Plays a till's day over HTTP alone: what it does, any ERP can do. Answers the key it made, and where and since when it sold. */
export async function playTillDay(
  service: ServiceProcess,
  steps: Steps,
): Promise<{ key: string; box: string; from: Date }> {
  const { url, sandboxUrl, adminToken } = service
  const run = Date.now().toString(36).toUpperCase()

  // From here on the demo is the buyer: terminals do nothing by themselves.
  await sandbox('PUT', '/_sandbox/pace', { fetch_ms: 0, event_ms: 0 })

  const account = await steps.step('Connect the shop by OAuth with PKCE', async () => {
    const login = await request('GET', `${url}/oauth/login?client=${client}`)
    if (login.status === 409) return { shown: 'connected by an earlier demo', value: undefined }
    expectStatus(login, 302)
    const consent = await request('GET', String(login.location), {
      headers: { 'x-sandbox-consent': 'approve' },
    })
    expectStatus(consent, 302)
    expectStatus(await request('GET', String(consent.location)), 200)
    return {
      shown: `client ${client}: the seller agreed, tokens are stored encrypted`,
      value: true,
    }
  })

  const { key, mpUserId } = await steps.step('Make an API key', async () => {
    const body = expectStatus(
      await request('POST', `${url}/api-keys`, {
        token: adminToken,
        body: { client, description: 'demo' },
      }),
      201,
    )
    const made = { key: String(body.key), mpUserId: Number(body.mp_user_id) }
    return {
      shown: `${made.key.slice(0, 7)}…, charges go to account ${made.mpUserId} (${body.nickname})`,
      value: made,
    }
  })

  await steps.step('Create a store with two boxes', async () => {
    const created = await request('POST', `${url}/stores`, {
      token: key,
      body: {
        name: 'Sucursal Centro',
        external_id: store,
        location: {
          street_name: 'Av. Corrientes',
          street_number: '1234',
          city_name: 'Balvanera',
          state_name: 'Capital Federal',
          latitude: -34.6037,
          longitude: -58.3816,
        },
        pos: boxes.map((id) => ({ name: `Caja ${id.slice(-1)}`, external_id: id })),
      },
    })
    expectStatus(created, 201, ...(account === undefined ? [409] : []))
    return {
      shown: `${store} with ${boxes.join(' and ')} (the provider gets two seconds between boxes)`,
      value: undefined,
    }
  })

  await steps.step('Pair a terminal with a box', async () => {
    const paired = await terminals()
    if (paired.length === 0) {
      const stores = expectStatus(await request('GET', `${url}/stores`, { token: key })).stores
      const pos = (stores as { pos: { external_id: string; mp_pos_id: string }[] }[])
        .flatMap((one) => one.pos)
        .find((one) => one.external_id === box)
      await sandbox('POST', '/_sandbox/terminals', {
        pos_id: pos?.mp_pos_id,
        user_id: mpUserId,
        operating_mode: 'STANDALONE',
      })
    }
    const mode = expectStatus(
      await request('PATCH', `${url}/terminals/operating-mode`, {
        token: key,
        body: { caja_id: box, operating_mode: 'PDV' },
      }),
      200,
    )
    const left = await walkAway()
    const freed = left > 0 ? `; canceled what an earlier demo left open (${left})` : ''
    return { shown: `${(await terminals())[0]?.id}: ${mode.message}${freed}`, value: undefined }
  })

  const sales = [
    { amount: '1234,50', pay: { payment_method_type: 'debit_card', payment_method_id: 'debvisa' } },
    {
      amount: '15999,90',
      pay: { payment_method_type: 'credit_card', payment_method_id: 'visa', installments: 3 },
    },
    { amount: '800', pay: { payment_method_type: 'qr' } },
  ]
  const paid: Charge[] = []
  const from = new Date()
  for (const [index, sale] of sales.entries()) {
    const amount = sale.amount.includes(',') ? sale.amount : `${sale.amount},00`
    await steps.step(`Charge ${amount} (${sale.pay.payment_method_type})`, async () => {
      const charge = await startCharge(`${run}-${index + 1}`, amount)
      const waiting = waitFor(charge, 'processed')
      await act(charge, { do: 'pay', ...sale.pay })
      const order = await waiting
      paid.push(charge)
      const [payment] = order.payments as { status: string; payment_method: { type: string } }[]
      return {
        shown: `${order.status}, payment ${payment?.status}: «${cashier(order)}»`,
        value: undefined,
      }
    })
  }

  await steps.step('A card is declined', async () => {
    const charge = await startCharge(`${run}-4`, '99,90')
    const waiting = waitFor(charge, 'failed')
    await act(charge, {
      do: 'decline',
      payment_method_type: 'credit_card',
      payment_method_id: 'master',
      status_detail: 'insufficient_amount',
    })
    return { shown: `failed: «${cashier(await waiting)}»`, value: undefined }
  })

  await steps.step('The till cancels a charge', async () => {
    const charge = await startCharge(`${run}-5`, '50,00')
    const body = expectStatus(
      await request('POST', `${url}/orders/cancel`, {
        token: key,
        body: { order_id: charge.orderId },
      }),
      200,
    )
    return { shown: `${body.status}, ${body.outcome}`, value: undefined }
  })

  await steps.step('Give a part of the second sale back', async () => {
    const body = expectStatus(
      await request('POST', `${url}/orders/refund`, {
        token: key,
        body: { order_id: paid[1]?.orderId, amount: '999,90' },
      }),
      200,
    )
    return { shown: `${body.type} refund of ${body.amount}: ${body.status}`, value: undefined }
  })

  await steps.step('Ask for a sale twice: it is charged once', async () => {
    const again = await request('POST', `${url}/orders`, {
      token: key,
      body: { caja_id: box, external_reference: `${run}-1`, amount: '1234,50' },
    })
    expectStatus(again, 409)
    return { shown: `${again.body.code}, ${again.body.outcome}`, value: undefined }
  })

  await steps.step('Compare with the provider’s ledger', async () => {
    const ledger = await sandbox('GET', '/_sandbox/ledger')
    const orders = (
      ledger.orders as { external_reference: string; status: string; paid_amount: string }[]
    )
      .filter((order) => order.external_reference.startsWith(run))
      .filter((order) => order.status === 'processed')
    const check = expectStatus(
      await request('GET', `${url}/admin/activity/verify`, { token: adminToken }),
      200,
    )
    if (orders.length !== sales.length) {
      throw new Error(`${orders.length} charges at the provider instead of ${sales.length}`)
    }
    if (check.valid !== true) throw new Error('the audit log does not verify')
    return {
      shown: `${orders.length} charges there, ${sales.length} here; audit log: ${check.entries} entries, unbroken`,
      value: undefined,
    }
  })

  return { key, box, from }

  async function sandbox(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<Record<string, unknown>> {
    const answer = await request(method, `${sandboxUrl}${path}`, { body })
    return expectStatus(answer, 200, 201, 204)
  }

  async function terminals(): Promise<{ id: string }[]> {
    const answer = await request('GET', `${url}/terminals?caja_id=${box}`, { token: key })
    return expectStatus(answer, 200).terminals as { id: string }[]
  }

  /** The buyer of an earlier demo may have left a charge on the terminal. Answers how many there were. */
  async function walkAway(): Promise<number> {
    const answer = await request('GET', `${url}/orders?caja_id=${box}&limit=50`, { token: key })
    const { orders } = expectStatus(answer, 200) as {
      orders: { order_id: string; mp_order_id: string | null; status: string }[]
    }
    const open = orders.filter(({ status }) =>
      ['created', 'at_terminal', 'action_required'].includes(status),
    )
    for (const { order_id: orderId, mp_order_id: mpOrderId } of open) {
      if (mpOrderId === null) continue
      await act({ orderId, mpOrderId }, { do: 'cancel' })
      expectStatus(await request('GET', `${url}/orders/${orderId}`, { token: key }), 200)
    }
    return open.length
  }

  async function startCharge(reference: string, amount: string): Promise<Charge> {
    const created = await request('POST', `${url}/orders`, {
      token: key,
      body: {
        caja_id: box,
        external_reference: reference,
        amount,
        description: 'Venta mostrador',
        ticket_number: `B-0001-${reference}`,
      },
    })
    const { order_id } = expectStatus(created, 201)
    const order = expectStatus(
      await request('GET', `${url}/orders/${order_id}`, { token: key }),
      200,
    )
    return { orderId: String(order_id), mpOrderId: String(order.mp_order_id) }
  }

  async function act(charge: Charge, action: Record<string, unknown>): Promise<void> {
    await sandbox('POST', `/_sandbox/orders/${charge.mpOrderId}/act`, action)
  }

  /** As a till does it: one long-poll instead of many requests. */
  async function waitFor(charge: Charge, status: string): Promise<Record<string, unknown>> {
    for (let tries = 0; tries < 10; tries += 1) {
      const order = expectStatus(
        await request('GET', `${url}/orders/${charge.orderId}?wait=5`, { token: key }),
        200,
      )
      if (order.status === status) return order
    }
    throw new Error(`the order did not become ${status}`)
  }

  function cashier(order: Record<string, unknown>): string {
    return (order.cashier as { message: string }).message
  }
}
