import { afterEach, beforeEach, expect, test } from 'vitest'
import { jsonFlow, startTestFlows, type TestFlows } from '../support/flows.ts'
import { startTestService } from '../support/service.ts'
import { startMercadoLibre } from './shops/mercadolibre.ts'

/** A flow whose issuer no longer renews the access to its destination waits, shows the reason, and continues with another token. */
const soon = { timeout: 20_000, interval: 20 }
const seller = {
  user: '8035443',
  clientId: '4242',
  clientSecret: 'canary-meli-secret',
  refreshToken: 'TG-canary-first',
}
const items = (price: number) => [1, 2, 3].map((n) => ({ id: `A-${n}`, price }))

let shop: Awaited<ReturnType<typeof startMercadoLibre>>
let flows: TestFlows
let service: Awaited<ReturnType<typeof startTestService>>

function definition(extra: object = {}) {
  const flow = jsonFlow('precios', shop.url, { startPaused: false }) as { destinations: object[] }
  const [web] = flow.destinations
  const auth = {
    ...{ type: 'oauth2', grant: 'refresh_token', clientAuth: 'form' },
    tokenUrl: `${shop.url}/oauth/token`,
    clientId: seller.clientId,
    clientSecret: `\${env:MELI_APP_SECRET}`,
    refreshToken: `\${file:${flows.dir}/token.txt}`,
    ...extra,
  }
  const request = { method: 'PUT', url: `${shop.url}/items/{pk}` }
  return {
    ...flow,
    destinations: [{ ...web, name: 'tienda', request, map: '{ "price": price }', auth }],
  }
}

beforeEach(async () => {
  shop = await startMercadoLibre(seller)
  for (const n of [1, 2, 3]) shop.publish(`A-${n}`, `A-${n}`)
  service = await startTestService()
  flows = await startTestFlows({ service, env: { MELI_APP_SECRET: seller.clientSecret } })
})
afterEach(async () => {
  await flows.stop()
  await service.stop()
  await shop.close()
})

const waiting = async () =>
  (await flows.call('GET', '/flow/precios/waiting')).json() as {
    waiting: { pk: string; attempts: number }[]
    destinations: { name: string; sending: { state: string; cause: string | null } }[]
  }
const asksForTokens = () => shop.asked.filter(({ path }) => path === '/oauth/token').length
const lossesLogged = () =>
  flows.logLines.filter((line) => line.includes('OAuth access lost')).length

test('without access nothing is sent or requested and no attempt counts; waiting items, errors, log and health show it until a new token works', {
  tags: ['long'],
}, async () => {
  await flows.write('token.txt', seller.refreshToken)
  await flows.write('precios.flow.yaml', definition())
  await flows.write('precios.json', items(10))
  expect((await flows.call('POST', '/flows/reload')).json()).toMatchObject({ problems: [] })
  await flows.call('POST', '/sync/precios')
  await expect.poll(async () => (await waiting()).waiting, soon).toEqual([])
  expect(asksForTokens()).toBe(1)

  shop.issuer.revoke()
  service.clock.advance(6 * 3_600_000)
  await flows.write('precios.json', items(20))
  await flows.call('POST', '/sync/precios')
  const cause =
    /^no access token: the issuer refused the refresh token \(invalid_grant\); it was revoked, .*put the new refresh token into \$\{file:.*token\.txt\}/
  await expect
    .poll(async () => (await waiting()).destinations[0], soon)
    .toMatchObject({
      name: 'tienda',
      sending: { state: 'open', cause: expect.stringMatching(cause) },
    })
  expect((await waiting()).waiting.map(({ pk, attempts }) => [pk, attempts]).toSorted()).toEqual([
    ['A-1', 0],
    ['A-2', 0],
    ['A-3', 0],
  ])
  const errors = (await flows.call('GET', '/errors')).json()
  expect(errors).toMatchObject([
    { entity: 'precios', adapter: 'tienda', pk: '', error: expect.stringMatching(cause) },
  ])
  expect(lossesLogged()).toBe(1)
  const { flows: cards } = (await flows.call('GET', '/flows')).json()
  expect(JSON.stringify(cards)).toContain('access_lost')

  // Neither another change, nor a manual retry, nor a restart sends a request to the issuer.
  await flows.write('precios.json', items(30))
  await flows.call('POST', '/sync/precios')
  await flows.call('POST', '/flow/precios/try', { body: { destination: 'tienda' } })
  const linesBefore = flows.logLines
  flows = await flows.restart()
  await expect
    .poll(async () => (await waiting()).destinations[0]?.sending.cause, soon)
    .toMatch(cause)
  expect(asksForTokens()).toBe(2)

  shop.issuer.accept('TG-canary-second')
  await flows.write('token.txt', 'TG-canary-second')
  await flows.call('POST', '/flows/reload')
  await expect.poll(async () => (await waiting()).waiting, soon).toEqual([])
  expect([...shop.listings.values()].map(({ price }) => price)).toEqual([30, 30, 30])
  expect(await waiting()).toMatchObject({ destinations: [{ sending: { state: 'flowing' } }] })
  expect((await flows.call('GET', '/flow/precios/failures')).json().failures).toEqual([])
  expect(JSON.stringify([linesBefore, flows.logLines])).not.toContain('canary')
})
