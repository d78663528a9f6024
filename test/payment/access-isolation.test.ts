import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  type Call,
  call,
  charge,
  createStore,
  openShop,
  payByCard,
  sandboxCall,
  type Till,
} from '../support/till.ts'

let service: TestService
let victim: Till & { terminalId: string }
let stranger: Till
/** Ids of the victim's things, by kind, each with an id of the same shape that nobody has. */
let ids: Record<'order' | 'paid' | 'provider' | 'store' | 'box', { theirs: string; none: string }>

beforeAll(async () => {
  service = await startTestService()
  victim = await openShop(service, 'victim', '201')
  stranger = await openShop(service, 'stranger', '202')
  await createStore(service, victim, { id: 'V-STORE', boxes: ['V-BOX'] })
  const paid = (await charge(service, victim, { reference: 'T-1' })).json().order_id
  await act(service, paid, payByCard)
  await call(service, { url: `/orders/${paid}`, token: victim.key })
  const open = (await charge(service, victim, { reference: 'T-2' })).json().order_id
  const { mp_order_id } = (
    await call(service, { url: `/orders/${open}`, token: victim.key })
  ).json()
  const nobody = '3f8e1f0e-6c2d-4b5a-9a51-0c7c4f2f9d11'
  ids = {
    order: { theirs: open, none: nobody },
    paid: { theirs: paid, none: nobody },
    provider: { theirs: mp_order_id, none: 'ORD01K8ZQ4M7N2P5R6S7T8V9W0X1Y' },
    store: { theirs: 'V-STORE', none: 'X-STORE' },
    box: { theirs: 'V-BOX', none: 'X-BOX' },
  }
})
afterAll(() => service.stop())

const box = (id: string) => ({ pos: [{ name: 'Caja', external_id: id }] })
const attacks: [
  kind: 'order' | 'paid' | 'provider' | 'store' | 'box',
  make: (id: string) => Call,
][] = [
  ...(['order', 'paid', 'provider'] as const).flatMap(
    (kind): [typeof kind, (id: string) => Call][] => [
      [kind, (id) => ({ url: `/orders/${id}` })],
      [kind, (id) => ({ url: `/orders/${id}?wait=1` })],
      [kind, (id) => ({ url: `/orders/${id}/timeline` })],
      [kind, (id) => ({ url: `/orders/${id}/events` })],
      [kind, (id) => ({ url: '/orders/cancel', body: { order_id: id } })],
      [kind, (id) => ({ url: '/orders/refund', body: { order_id: id } })],
      [kind, (id) => ({ url: '/orders/refund', body: { order_id: id, amount: '1,00' } })],
    ],
  ),
  ['store', (id) => ({ url: `/stores/${id}` })],
  ['store', (id) => ({ method: 'DELETE', url: `/stores/${id}` })],
  ['store', (id) => ({ url: `/stores/${id}/pos`, body: box('NEW') })],
  ['store', (id) => ({ method: 'DELETE', url: `/stores/${id}/pos/V-BOX` })],
  ['store', (id) => ({ url: `/terminals?sucursal_id=${id}` })],
  ['box', (id) => ({ method: 'DELETE', url: `/stores/SUC-1/pos/${id}` })],
  ['box', (id) => ({ method: 'DELETE', url: `/stores/V-STORE/pos/${id}` })],
  ['box', (id) => ({ url: `/terminals?caja_id=${id}` })],
  ['box', (id) => ({ url: `/orders?caja_id=${id}` })],
  [
    'box',
    (id) => ({
      method: 'PATCH',
      url: '/terminals/operating-mode',
      body: { caja_id: id, operating_mode: 'STANDALONE' },
    }),
  ],
  [
    'box',
    (id) => ({
      url: '/orders',
      body: { caja_id: id, external_reference: 'T-9', amount: '1,00' },
    }),
  ],
]

/** The answer without what differs by nature: its request id, and the id that was asked for. */
async function answerTo(request: Call, id: string): Promise<string> {
  const { statusCode, body, headers } = await call(service, { ...request, token: stranger.key })
  const told = body.replaceAll(id, '<id>').replace(/"request_id":"[^"]+"/, '"request_id":""')
  return `${statusCode} ${headers['content-type']} ${told}`
}

/** Everything that is the victim's, here and at the provider. */
async function possessions(): Promise<unknown> {
  const { db } = service.database
  const rows: Record<string, unknown> = {}
  for (const table of ['orders', 'order_operations', 'order_events', 'stores', 'pos']) {
    const found = await sql`select to_jsonb(t) as row from ${sql.table(table)} t
      where client = 'victim' order by to_jsonb(t)::text`.execute(db)
    rows[table] = found.rows
  }
  const state = (await sandboxCall(service, 'GET', '/_sandbox/state')) as Record<string, unknown>
  delete state.now
  return { rows, state, ledger: service.sandbox.ledger() }
}

test('another client’s things look to a stranger exactly like things that do not exist', async () => {
  for (const [kind, make] of attacks) {
    const { theirs, none } = ids[kind]
    const seen = await answerTo(make(theirs), theirs)
    const name = `${make('…').method ?? ''} ${make('…').url}`
    expect(seen, name).toBe(await answerTo(make(none), none))
    expect(seen, name).toMatch(/^404 |^200 .*(\{"terminals":\[\]\}|\{"orders":\[\],"total":0\})$/)
  }
})

test('nothing that a stranger tries changes anything of a client, here or at the provider', async () => {
  const before = await possessions()
  await sandboxCall(service, 'DELETE', '/_sandbox/requests')
  for (const [kind, make] of attacks) await answerTo(make(ids[kind].theirs), ids[kind].theirs)
  expect(await possessions()).toEqual(before)
  const { requests } = (await sandboxCall(service, 'GET', '/_sandbox/requests')) as {
    requests: { user_id: number | null; method: string }[]
  }
  expect(requests.filter(({ user_id }) => user_id === victim.mpUserId)).toEqual([])
  expect(requests.filter(({ method }) => method !== 'GET')).toEqual([])
})

test('lists show a client its own things only', async () => {
  const list = async (url: string) => (await call(service, { url, token: stranger.key })).json()
  expect((await list('/orders')).orders).toEqual([])
  const { stores } = await list('/stores')
  expect(stores.map((store: { external_id: string }) => store.external_id)).toEqual(['SUC-1'])
  const { terminals } = await list('/terminals')
  expect(terminals).toHaveLength(1)
  expect(terminals[0].id).not.toBe(victim.terminalId)
})

test('the owner is answered, so that the comparison means something', async () => {
  for (const id of [ids.order.theirs, ids.provider.theirs]) {
    expect((await call(service, { url: `/orders/${id}`, token: victim.key })).statusCode).toBe(200)
  }
  const store = await call(service, { url: '/stores/V-STORE', token: victim.key })
  expect(store.json().pos).toMatchObject([{ external_id: 'V-BOX' }])
})
