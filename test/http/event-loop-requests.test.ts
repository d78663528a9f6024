/** @module-tag long */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestFlows, type TestFlows } from '../support/flows.ts'
import { longestTurn, promisedMs } from '../support/longest-turn.ts'
import { openOwnShop } from '../support/money.ts'
import { routesOf } from '../support/routes.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import type { Till } from '../support/till.ts'

/** The largest bodies that are read, to every route of both listeners that takes a method with one. */
let service: TestService
let flows: TestFlows
let shop: Till
/** A busy machine takes several times the seconds that these need. */
const patient = { timeout: 120_000 }

beforeAll(async () => {
  service = await startTestService({ env: { RATE_LIMIT: '1000000' } })
  shop = await openOwnShop(service, 'acme')
  flows = await startTestFlows({ service })
})
afterAll(async () => {
  await flows.stop()
  await service.stop()
})

const bodyBytes = 262_144
const filled = (start: string, part: string, end: string) =>
  start + part.repeat((bodyBytes - start.length - end.length) / part.length) + end
const names = Array.from({ length: 20_000 }, (_, index) => `"a${index}":1`).join(',')
const bodies: [string, string][] = [
  ['numbers', filled('{"a":[', '1,', '1]}')],
  ['depth', filled('', '[', '')],
  ['objects', filled('{"a":[', '{},', '1]}')],
  ['names', `{${names}}`],
  ['one text', filled('{"external_reference":"', 'ñ', '"}').slice(0, -1_000)],
  ['escapes', filled('{"external_reference":"', '\\u00f1', '"}')],
  ['letters', filled('{"name":"', 'x', '"}')],
  ['zeros', filled('{"amount":1', '0', '}')],
]
const filledIn = (path: string) => path.replace(/:\w+/g, 'f0')

test.each(bodies)(
  'a body of 256 KiB of %s does not block the event loop, on any route',
  patient,
  async (_, payload) => {
    const headers = { 'content-type': 'application/json', host: '127.0.0.1:8080' }
    for (const [app, token] of [
      [service.app, shop.key],
      [service.app, adminToken],
      [flows.app, undefined],
    ] as const) {
      for (const route of routesOf({ app })) {
        const [method = '', path = ''] = route.split(' ')
        if (!['POST', 'PUT', 'PATCH', 'DELETE'].includes(method)) continue
        const { ms, said } = await longestTurn(async () => {
          const { statusCode } = await app.inject({
            method: method as 'POST',
            url: filledIn(path),
            headers: { ...headers, ...(token && { 'x-api-token': token }) },
            payload,
          })
          // 502: the provider, for what has no account of its own by then.
          return statusCode >= 500 && statusCode !== 502 ? `${statusCode}` : 'answered'
        })
        expect(said, route).toBe('answered')
        expect(ms, route).toBeLessThan(promisedMs)
      }
    }
  },
)
