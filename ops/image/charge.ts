import { setTimeout as wait } from 'node:timers/promises'
import { expectStatus, request } from '../../demo/http.ts'

// One charge at the service of a container, from the login of the shop to the payment. ADMIN_TOKEN is the one of the service.

const url = 'http://127.0.0.1:3000'
const sandbox = 'http://127.0.0.1:3001'
const admin = { token: process.env.ADMIN_TOKEN ?? '' }
const client = 'image'

const login = await request('GET', `${url}/oauth/login?client=${client}`, admin)
const consent = await request('GET', String(login.location), {
  headers: { 'x-sandbox-consent': 'approve' },
})
expectStatus(await request('GET', String(consent.location)))
const { key, mp_user_id } = expectStatus(
  await request('POST', `${url}/api-keys`, { ...admin, body: { client } }),
  201,
)
const token = String(key)
const box = 'CAJA-1'
expectStatus(
  await request('POST', `${url}/stores`, {
    token,
    body: {
      name: 'Sucursal Centro',
      external_id: 'SUC-CENTRO',
      location: {
        street_name: 'Av. Corrientes',
        street_number: '1234',
        city_name: 'Balvanera',
        state_name: 'Capital Federal',
        latitude: -34.6037,
        longitude: -58.3816,
      },
      pos: [{ name: 'Caja 1', external_id: box }],
    },
  }),
  201,
)
const stores = expectStatus(await request('GET', `${url}/stores`, { token })).stores as {
  pos: { mp_pos_id: string }[]
}[]
await request('PUT', `${sandbox}/_sandbox/pace`, { body: { fetch_ms: 0, event_ms: 0 } })
await request('POST', `${sandbox}/_sandbox/terminals`, {
  body: { pos_id: stores[0]?.pos[0]?.mp_pos_id, user_id: mp_user_id, operating_mode: 'PDV' },
})
const order = expectStatus(
  await request('POST', `${url}/orders`, {
    token,
    body: { caja_id: box, external_reference: 'T-1', amount: '100,00' },
  }),
  201,
)
const read = async () =>
  expectStatus(await request('GET', `${url}/orders/${order.order_id}`, { token }))
const { mp_order_id } = await read()
for (const what of [
  { do: 'fetch' },
  { do: 'pay', payment_method_type: 'debit_card', payment_method_id: 'debvisa' },
]) {
  expectStatus(
    await request('POST', `${sandbox}/_sandbox/orders/${mp_order_id}/act`, { body: what }),
    200,
    204,
  )
}
let { status } = await read()
for (let tries = 0; status !== 'processed' && tries < 50; tries += 1) {
  await wait(100)
  status = (await read()).status
}
if (status !== 'processed') throw new Error(`the order is ${status}`)
process.stdout.write(`a charge of 100,00 is ${status}\n`)
