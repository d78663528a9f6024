import { expectStatus, request } from '../http.ts'
import { chain, planStores, problemBoxes } from './chain-plan.ts'
import {
  type ChainKey,
  type ChainService,
  chainCall,
  forEach,
  sandboxCall,
} from './chain-service.ts'

/** Connects the chain by OAuth and makes a key for it. */
export async function connectChain(service: ChainService): Promise<ChainKey> {
  const { url } = service
  const login = await request(
    'GET',
    `${url}/oauth/login?client=${encodeURIComponent(chain.client)}`,
  )
  expectStatus(login, 302)
  const consent = await request('GET', String(login.location), {
    headers: { 'x-sandbox-consent': 'approve' },
  })
  expectStatus(consent, 302)
  const back = new URL(String(consent.location))
  expectStatus(await request('GET', `${url}${back.pathname}${back.search}`))
  return makeKey(service)
}

/** A new key of the chain, which is connected already. */
export async function makeKey({ url, adminToken }: ChainService): Promise<ChainKey> {
  const body = { client: chain.client, description: 'demo' }
  const made = expectStatus(
    await request('POST', `${url}/api-keys`, { token: adminToken, body }),
    201,
  )
  return { key: String(made.key), mpUserId: Number(made.mp_user_id) }
}

/** The terminal of each box that has one, by the box's id. */
export type Terminals = Record<string, string>

/** Creates the stores with their boxes, and pairs a terminal with each box but one. */
export async function openStores(service: ChainService, key: ChainKey): Promise<Terminals> {
  const stores = planStores()
  await forEach(stores, 2, async ({ id, name, boxes }) => {
    await chainCall(service, key, 'POST', '/stores', {
      name,
      external_id: id,
      location: {
        street_name: 'Av. Corrientes',
        street_number: id.slice(4),
        city_name: 'Balvanera',
        state_name: 'Capital Federal',
        latitude: -34.6037,
        longitude: -58.3816,
      },
      pos: boxes.map((box) => ({ name: box.name, external_id: box.id })),
    })
  })
  const there = await chainCall(service, key, 'GET', '/stores')
  const boxes = (there.stores as { pos: { external_id: string; mp_pos_id: string }[] }[]).flatMap(
    ({ pos }) => pos,
  )
  const terminals: Terminals = {}
  const withTerminal = boxes.filter(({ external_id: id }) => id !== problemBoxes.withoutTerminal)
  await forEach(withTerminal, 4, async ({ external_id: id, mp_pos_id }) => {
    const made = await sandboxCall(service, 'POST', '/_sandbox/terminals', {
      pos_id: mp_pos_id,
      user_id: key.mpUserId,
      operating_mode: id === problemBoxes.standalone ? 'STANDALONE' : 'PDV',
    })
    terminals[id] = String(made.id)
  })
  return terminals
}
