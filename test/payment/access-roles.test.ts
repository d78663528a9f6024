import { afterAll, beforeAll, expect, test } from 'vitest'
import { table } from '../support/access-table.ts'
import { by, join, type TestPerson } from '../support/people.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { createStore, enrol } from '../support/till.ts'

/**
 * Which roles may call which route, written by hand, so that a mistake in `src/domain/permissions.ts` is detected: `A` administrator of
 * the service, `a` of a client, `s` supervisor of some stores, `v` viewer, `f` flow operator, `w` viewer of the service. All others are
 * refused.
 */
const roles: Record<string, string> = {
  'GET /account': 'Aasvfw',
  'POST /account/password': 'Aasvfw',
  'POST /account/totp': 'Aasvfw',
  'POST /account/totp/confirm': 'Aasvfw',
  'POST /account/totp/remove': 'Aasvfw',
  'DELETE /account/sessions/:sessionId': 'Aasvfw',
  'GET /people': 'Aa',
  'POST /people': 'Aa',
  'PATCH /people/:personId': 'Aa',
  'POST /people/:personId/reset': 'Aa',
  'POST /people/:personId/revoke': 'Aa',
  'GET /people/:personId/sessions': 'Aa',
  'DELETE /people/:personId/sessions': 'Aa',
  'GET /oauth/status': 'Aasv',
  'POST /oauth/refresh': 'Aa',
  'POST /oauth/logout': 'Aa',
  'GET /orders': 'Aasv',
  'POST /orders': 'Aas',
  'GET /orders/:orderId': 'Aasv',
  'GET /orders/:orderId/timeline': 'Aasv',
  'POST /orders/:orderId/ask': 'Aas',
  'POST /orders/:orderId/settle': 'Aas',
  'POST /orders/cancel': 'Aas',
  'POST /orders/refund': 'Aas',
  'GET /events': 'Aasv',
  'GET /events/feed': 'Aasv',
  'GET /events/feed/consumers': 'Aav',
  'POST /events/feed/consumers': 'Aa',
  'POST /events/feed/consumers/:name': 'Aa',
  'POST /events/feed/consumers/:name/seek': 'Aa',
  'DELETE /events/feed/consumers/:name': 'Aa',
  'GET /events/endpoints': 'Aav',
  'GET /events/endpoints/:id': 'Aav',
  'GET /events/endpoints/:id/attempts': 'Aav',
  'GET /events/endpoints/:id/events/:event_id': 'Aav',
  'POST /events/endpoints': 'Aa',
  'PATCH /events/endpoints/:id': 'Aa',
  'DELETE /events/endpoints/:id': 'Aa',
  'POST /events/endpoints/:id/rotate': 'Aa',
  'POST /events/endpoints/:id/resume': 'Aa',
  'POST /events/endpoints/:id/skip': 'Aa',
  'POST /events/endpoints/:id/stop': 'Aa',
  'POST /events/endpoints/:id/ping': 'Aa',
  'POST /events/endpoints/:id/replay': 'Aa',
  'GET /health/fleet': 'Aasv',
  'GET /health/fleet/changes': 'Aasv',
  'GET /statistics': 'Aasv',
  'GET /overview': 'Aasv',
  'GET /sales': 'Aasv',
  'GET /sales-over-time': 'Aasv',
  'GET /sales/:storeExternalId': 'Aasv',
  'GET /settlements/files': 'Aav',
  'POST /settlements/files': 'Aa',
  'POST /settlements/fetches': 'Aa',
  'GET /settlements/fetches/:fetchId': 'Aav',
  'GET /settlements/net': 'Aav',
  'GET /stores': 'Aasv',
  'POST /stores': 'Aa',
  'GET /stores/:storeExternalId': 'Aasv',
  'DELETE /stores/:storeExternalId': 'Aa',
  'POST /stores/:storeExternalId/pos': 'Aa',
  'DELETE /stores/:storeExternalId/pos/:posExternalId': 'Aa',
  'PUT /stores/:storeExternalId/time-zone': 'Aa',
  'GET /terminals': 'Aasv',
  'PATCH /terminals/operating-mode': 'Aas',
  'POST /closings': 'Aas',
  'GET /closings': 'Aasv',
  'GET /closings/:closingId': 'Aasv',
  'GET /closings/:closingId/csv': 'Aasv',
  'GET /closings/:closingId/print': 'Aasv',
  'POST /closings/:closingId/count': 'Aas',
  'POST /closings/:closingId/sign': 'Aas',
  'POST /closings/:closingId/amendments': 'Aas',
  'GET /chargebacks': 'Aasv',
  'GET /chargebacks/:chargebackId': 'Aasv',
  'GET /orphans': 'Aasv',
  'POST /orphans/:orphanId/adopt': 'Aas',
  'POST /orphans/:orphanId/refund': 'Aas',
  'POST /orphans/:orphanId/dismiss': 'Aas',
  'GET /admin/activity': 'Aa',
  'GET /admin/activity/verify': 'A',
  'GET /metrics': 'A',
  'GET /api-keys': 'A',
  'POST /api-keys': 'A',
  'POST /api-keys/revoke': 'A',
  'GET /admin/charge-classes': 'A',
  'PUT /admin/charge-classes': 'A',
  'GET /admin/clients': 'A',
  'GET /admin/clients/:clientName': 'A',
  'POST /admin/clients/:clientName/unpin': 'A',
  'POST /admin/alerts/test': 'A',
  'GET /admin/invitations': 'A',
  'DELETE /admin/invitations/:invitationId': 'A',
  'POST /admin/invitations': 'A',
  'GET /admin/webhooks/logs': 'A',
  'POST /admin/webhooks/:id/replay': 'A',
  'GET /admin/statistics': 'A',
  'GET /admin/orders': 'A',
  'POST /admin/orders/:idempotencyKey/simulate': 'A',
  'POST /admin/orders/simulate/:idempotencyKey': 'A',
  'POST /admin/terminals/:terminalId/free': 'A',
}

const guarded = Object.entries(table).filter(
  ([, { access }]) => access !== 'public' && access !== 'signed',
)

let service: TestService
let people: Record<string, TestPerson>
beforeAll(async () => {
  service = await startTestService({ streams: { longestMs: 1 } })
  const acme = await enrol(service, 'acme', '9200001')
  await createStore(service, acme, { id: 'SUC-OWN', boxes: ['CAJA-OWN'] })
  await service.app.inject({
    method: 'POST',
    url: '/oauth/logout',
    headers: { 'x-api-token': acme.key },
  })
  const client = 'acme'
  people = {
    A: await join(service, { name: 'global', role: 'administrator' }),
    a: await join(service, { name: 'boss', role: 'administrator', client }),
    s: await join(service, { name: 'super', role: 'supervisor', client, stores: ['SUC-OWN'] }),
    v: await join(service, { name: 'viewer', role: 'viewer', client }),
    f: await join(service, { name: 'flows', role: 'flow_operator' }),
    w: await join(service, { name: 'watch', role: 'viewer' }),
  }
})
afterAll(() => service.stop())

test('T57: the table lists every route that needs a caller', () => {
  expect(Object.keys(roles).toSorted()).toEqual(guarded.map(([route]) => route).toSorted())
})

test.each(guarded)(
  'T57: %s accepts the roles of the table and refuses the others',
  async (route, row) => {
    const [method = '', pattern = ''] = route.split(' ')
    for (const [letter, person] of Object.entries(people)) {
      // The administrator of the service names a client, as the admin token does.
      const client = letter === 'A' && row.access === 'client' ? 'client=acme' : ''
      const url = row.url ?? pattern
      const answer = await by(service, person, {
        method: method as 'GET',
        url: client === '' ? url : `${url}${url.includes('?') ? '&' : '?'}${client}`,
        ...(row.body && { body: row.body }),
      })
      const isAllowed = roles[route]?.includes(letter)
      const expected = isAllowed ? row.lets : 403
      expect([letter, answer.statusCode, answer.body.slice(0, 200)]).toEqual([
        letter,
        expected,
        expect.any(String),
      ])
      if (!isAllowed) expect(answer.json().code).toBe('FORBIDDEN')
    }
  },
)

test('T57: a person of a client cannot name another client, and flow roles cannot name any', async () => {
  for (const letter of ['a', 's', 'v', 'f', 'w']) {
    const person = people[letter]
    if (!person) throw new Error(`there is no ${letter}`)
    for (const client of ['other', 'nobody']) {
      const answer = await by(service, person, { url: `/orders?client=${client}` })
      expect([letter, client, answer.statusCode]).toEqual([letter, client, 403])
    }
  }
  for (const [letter, may] of [
    ['f', ['account', 'see_flows', 'run_flows']],
    ['w', ['account', 'see_flows']],
  ] as const) {
    const person = people[letter]
    if (!person) throw new Error(`there is no ${letter}`)
    const session = (await by(service, person, { url: '/session' })).json()
    expect(session).toMatchObject({ valid: true, type: null, client: null })
    expect(session.may).toEqual(may)
    expect((await by(service, person, { url: '/oauth/validate' })).json().valid).toBe(false)
  }
})
