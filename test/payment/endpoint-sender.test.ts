import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { createEncryption } from '../../src/domain/encryption.ts'
import { createLogger } from '../../src/http/logging.ts'
import { LeaseLostError, withLease } from '../../src/jobs/with-lease.ts'
import { EndpointSender } from '../../src/payments/events/endpoint-sender.ts'
import { numberCommitted } from '../../src/payments/events/feed.ts'
import {
  createEndpointClient,
  type EndpointClient,
} from '../../src/payments/process/endpoint-client.ts'
import { type Call, openHttpReceiver } from '../notifications/receivers.ts'
import {
  bodyOf,
  endpointsPath,
  makeEndpoint,
  readEndpoint,
  resourcesAt,
  writeEvent,
} from '../support/endpoints.ts'
import { openOwnShop } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, type Till } from '../support/till.ts'

vi.setConfig({ testTimeout: 60_000 })

const hourMs = 3_600_000

let service: TestService
let hook: Awaited<ReturnType<typeof openHttpReceiver>>
beforeAll(async () => {
  hook = await openHttpReceiver()
  service = await startTestService({
    env: {
      EVENTS_PRIVATE_NETWORK: 'true',
      ALERT_WEBHOOK_URL: `${hook.url}/alerts`,
      ALERT_PRIVATE_NETWORK: 'true',
    },
  })
})
beforeEach(async () => {
  // What a test leaves waiting would be sent in the next one, whose clock goes on.
  await service.database.db.deleteFrom('event_endpoints').execute()
  await service.database.db.deleteFrom('events').where('type', '=', 'endpoint.stopped').execute()
  hook.reset()
})
afterAll(async () => {
  await service.stop()
  await hook.close()
})

/** A shop with an endpoint at the path of its name. */
async function open(client: string, body: object = {}) {
  const till = await openOwnShop(service, client)
  return { till, ...(await makeEndpoint(service, till, `${hook.url}/${client}`, body)) }
}

/** Answers a path so, and others with 200. */
function answers(path: string, status: number, headers: Record<string, string> = {}, body = '') {
  hook.answer = (response, { url }) =>
    response.writeHead(url === path ? status : 200, url === path ? headers : {}).end(body)
}

/** A second process. */
const startTwin = () =>
  startTestService({ twinOf: service, env: { EVENTS_PRIVATE_NETWORK: 'true' } })

const at = (client: string) => resourcesAt(hook.calls, `/${client}`)
const act = (till: Till, id: string, what: string, body: object = {}) =>
  call(service, { url: `${endpointsPath}/${id}/${what}`, token: till.key, body })

async function attemptsOf(till: Till, id: string, query = '') {
  const answer = await call(service, {
    url: `${endpointsPath}/${id}/attempts${query}`,
    token: till.key,
  })
  expect(answer.statusCode, answer.body).toBe(200)
  return answer.json().attempts
}

/** Verifies a message with the package of the standard, at the time of the service. */
function verify(secret: string, received: Call): unknown {
  vi.useFakeTimers({ toFake: ['Date'], now: service.clock.now() })
  try {
    return new Webhook(secret).verify(received.body, headersOf(received))
  } finally {
    vi.useRealTimers()
  }
}

const headersOf = ({ headers }: Call) => headers as Record<string, string>

test('an event arrives once, signed as the standard says, with the body that the feed shows', async () => {
  const { till, id, secret } = await open('signed')
  await writeEvent(service, 'signed', 'o1')
  await service.endpoints.sendDue()
  await service.endpoints.sendDue()
  expect(at('signed')).toEqual(['o1'])
  const [received] = hook.calls as [Call]
  const verified = verify(secret, received)
  const feed = await call(service, { url: '/events/feed', token: till.key })
  const [event] = feed.json().events
  expect(verified).toEqual({ ...event, timestamp: event.at })
  expect(received.headers['webhook-id']).toBe(event.id)
  expect(received.headers['content-type']).toBe('application/json')
  const endpoint = await readEndpoint(service, till, id)
  expect(endpoint).toMatchObject({ state: 'active', waiting: 0, failures: 0, failed: 0 })
  expect(Date.parse(endpoint.last_success_at)).toBeGreaterThan(0)
  expect(await attemptsOf(till, id)).toMatchObject([
    { event_id: event.id, type: 'order.paid', success: true, status: 200, failure: null },
  ])
})

test('later events of a resource wait for one that failed, others go on, and the order of the resource stays', async () => {
  const { till, id } = await open('ordered')
  hook.answer = (response, received) =>
    response.writeHead(bodyOf(received).resource.id === 'bad' ? 500 : 204).end()
  for (const resource of ['bad', 'good', 'bad', 'good'])
    await writeEvent(service, 'ordered', resource)
  await service.endpoints.sendDue()
  expect(at('ordered').toSorted()).toEqual(['bad', 'good', 'good'])
  expect(await readEndpoint(service, till, id)).toMatchObject({ waiting: 2, failed: 1 })
  const first = hook.calls.find((one) => bodyOf(one).resource.id === 'bad') as Call
  hook.reset()
  service.clock.advance(6_000)
  await service.endpoints.sendDue()
  expect(at('ordered')).toEqual(['bad', 'bad'])
  expect(bodyOf(hook.calls[0] as Call).id).toBe(bodyOf(first).id)
  expect(bodyOf(hook.calls[1] as Call).id).not.toBe(bodyOf(first).id)
})

test('a dead endpoint and one without an answer delay no other', async () => {
  const dead = await open('dead')
  await open('alive')
  const pending: (() => void)[] = []
  hook.answer = (response, { url }) => {
    if (url === '/dead') pending.push(() => response.end())
    else response.end()
  }
  for (let times = 0; times < 3; times += 1) {
    await writeEvent(service, 'dead', `d${times}`)
    await writeEvent(service, 'alive', `a${times}`)
  }
  const sending = service.endpoints.sendDue()
  await expect.poll(() => at('alive').toSorted()).toEqual(['a0', 'a1', 'a2'])
  await expect.poll(() => pending.length).toBe(3)
  await writeEvent(service, 'alive', 'a3')
  // A sender that is just ending does not hear of it: the next round sends it, as the loop of the service does.
  const nextRound = () => {
    void service.endpoints.sendDue()
    return at('alive').length
  }
  await expect.poll(nextRound).toBe(4)
  expect(await readEndpoint(service, dead.till, dead.id)).toMatchObject({ waiting: 3 })
  for (const end of pending) end()
  await sending
})

test('410 stops an endpoint at once, with an event and a notification; resume sends from the first undelivered', async () => {
  const { till, id } = await open('gone')
  answers('/gone', 410)
  await writeEvent(service, 'gone', 'o1')
  await service.endpoints.sendDue()
  await writeEvent(service, 'gone', 'o2')
  await service.endpoints.sendDue()
  expect(at('gone')).toEqual(['o1'])
  expect(await readEndpoint(service, till, id)).toMatchObject({
    state: 'stopped',
    stop_reason: 'gone',
  })
  const feed = await call(service, {
    url: '/events/feed?types=endpoint.stopped',
    token: till.key,
  })
  expect(feed.json().events).toMatchObject([
    {
      resource: { type: 'endpoint', id, url: `${endpointsPath}/${id}` },
      changes: {
        state: { from: 'active', to: 'stopped' },
        stop_reason: { from: null, to: 'gone' },
      },
    },
  ])
  const fleet = async () => (await asAdmin(service, { url: '/health/fleet' })).json().connections
  expect(await fleet()).toContainEqual(
    expect.objectContaining({
      ...{
        client: 'gone',
        state: 'attention',
        cause: 'endpoint_stopped',
        action: 'check_endpoint',
      },
      message: expect.stringContaining(': 1, '),
    }),
  )
  service.clock.advance(15_000)
  await service.notifications.checkOnce()
  service.clock.advance(15_000)
  await service.notifications.checkOnce()
  const told = hook.calls
    .filter(({ url }) => url === '/alerts')
    .map(({ body }) => JSON.parse(body))
    .filter(({ type }) => type === 'endpoints.stopped')
  expect(told).toMatchObject([{ data: { endpoints: [{ id, client: 'gone', reason: 'gone' }] } }])

  hook.reset()
  expect((await act(till, id, 'resume')).json()).toMatchObject({ state: 'active' })
  await service.endpoints.sendDue()
  // It gets the event of its own stop too.
  expect(at('gone').toSorted()).toEqual([id, 'o1', 'o2'])
  expect(await readEndpoint(service, till, id)).toMatchObject({ waiting: 0, failures: 0 })
  expect(await fleet()).toContainEqual(expect.objectContaining({ client: 'gone', cause: null }))
})

test('a redirect is a failure and is not followed', async () => {
  const { till, id } = await open('moved')
  answers('/moved', 302, { location: `${hook.url}/elsewhere` })
  await writeEvent(service, 'moved', 'o1')
  await service.endpoints.sendDue()
  expect(hook.calls.map(({ url }) => url)).toEqual(['/moved'])
  expect(await attemptsOf(till, id)).toMatchObject([{ success: false, status: 302 }])
  expect(await readEndpoint(service, till, id)).toMatchObject({ failed: 1, failures: 1 })
})

test('the first 1,000 characters of an answer are kept, and attempts are found by their event and outcome', async () => {
  const { till, id } = await open('wordy')
  answers('/wordy', 500, {}, `ñ\0${'x'.repeat(2_000)}`)
  await writeEvent(service, 'wordy', 'o1')
  await service.endpoints.sendDue()
  hook.reset()
  await writeEvent(service, 'wordy', 'o2')
  await service.endpoints.sendDue()
  const [failed] = await attemptsOf(till, id, '?outcome=failed')
  expect(failed.answer).toBe(`ñ${'x'.repeat(999)}`)
  expect(await attemptsOf(till, id, '?outcome=success')).toHaveLength(1)
  expect(await attemptsOf(till, id, `?event_id=${failed.event_id}`)).toHaveLength(1)
  const event = await call(service, {
    url: `${endpointsPath}/${id}/events/${failed.event_id}`,
    token: till.key,
  })
  expect(event.json()).toMatchObject({
    event: { id: failed.event_id, resource: { id: 'o1' }, data: {} },
    attempts: [{ status: 500 }],
  })
})

test('nothing is sent before the Retry-After of an endpoint, an hour at most', async () => {
  const { till, id } = await open('throttled')
  answers('/throttled', 429, { 'retry-after': '120' })
  await writeEvent(service, 'throttled', 'o1')
  await service.endpoints.sendDue()
  hook.reset()
  await writeEvent(service, 'throttled', 'o2')
  service.clock.advance(110_000)
  await service.endpoints.sendDue()
  expect(at('throttled')).toEqual([])
  service.clock.advance(11_000)
  await service.endpoints.sendDue()
  expect(at('throttled').toSorted()).toEqual(['o1', 'o2'])

  answers('/throttled', 503, { 'retry-after': '999999' })
  await writeEvent(service, 'throttled', 'o3')
  await service.endpoints.sendDue()
  hook.reset()
  service.clock.advance(hourMs + 1_000)
  await service.endpoints.sendDue()
  expect(at('throttled')).toEqual(['o3'])
  expect(await readEndpoint(service, till, id)).toMatchObject({ waiting: 0 })
})

/** The standard's schedule, in seconds. */
const schedule = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]

test('an event is tried for 75 hours by the schedule of the standard, then the endpoint stops and nothing is lost', async () => {
  const { till, id } = await open('silent', { types: ['order.paid'] })
  answers('/silent', 500)
  await writeEvent(service, 'silent', 'o1')
  await service.endpoints.sendDue()
  for (const [step, seconds] of schedule.entries()) {
    service.clock.advance(seconds * 1_000 - 1_000)
    await service.endpoints.sendDue()
    expect([step, at('silent').length]).toEqual([step, step + 1])
    // Chance makes a pause a tenth longer at most.
    service.clock.advance(seconds * 100 + 2_000)
    await service.endpoints.sendDue()
    expect([step, at('silent').length]).toEqual([step, step + 2])
  }
  expect(await readEndpoint(service, till, id)).toMatchObject({
    state: 'stopped',
    stop_reason: 'exhausted',
    failures: 10,
    waiting: 1,
  })
  await writeEvent(service, 'silent', 'o2')
  hook.reset()
  await service.endpoints.sendDue()
  expect(at('silent')).toEqual([])
  await act(till, id, 'resume')
  await service.endpoints.sendDue()
  expect(at('silent').toSorted()).toEqual(['o1', 'o2'])
})

test('an endpoint that works again gets at once what failed during the outage, and one request at a time until then', async () => {
  await open('outage')
  answers('/outage', 503)
  for (let times = 0; times < 6; times += 1) await writeEvent(service, 'outage', `o${times}`)
  await service.endpoints.sendDue()
  service.clock.advance(6_000)
  await service.endpoints.sendDue()
  // Twelve attempts failed: the next is planned in five minutes.
  expect(hook.calls).toHaveLength(12)
  hook.reset()
  await writeEvent(service, 'outage', 'new')
  await service.endpoints.sendDue()
  expect(at('outage')[0]).toBe('new')
  expect(at('outage').toSorted()).toEqual(['new', 'o0', 'o1', 'o2', 'o3', 'o4', 'o5'])
})

test('skip leaves out what waits, and the next event is sent', async () => {
  const { till, id } = await open('skipper')
  answers('/skipper', 500)
  await writeEvent(service, 'skipper', 'o1')
  await writeEvent(service, 'skipper', 'o2')
  await service.endpoints.sendDue()
  hook.reset()
  expect((await act(till, id, 'skip')).json()).toMatchObject({ waiting: 0, failed: 0 })
  await writeEvent(service, 'skipper', 'o3')
  service.clock.advance(10_000)
  await service.endpoints.sendDue()
  expect(at('skipper')).toEqual(['o3'])
})

test('one event, those of a time, or those that failed are sent again under their ids; a dry run only counts', async () => {
  const { till, id } = await open('again')
  const from = service.clock.now().toISOString()
  await writeEvent(service, 'again', 'o1')
  await writeEvent(service, 'again', 'o1')
  await writeEvent(service, 'again', 'o2')
  await service.endpoints.sendDue()
  const ids = new Map(hook.calls.map((one) => [bodyOf(one).id, bodyOf(one).resource.id]))
  hook.reset()
  expect((await act(till, id, 'replay', { from, dry_run: true })).json()).toEqual({
    events: 3,
    dry_run: true,
  })
  await service.endpoints.sendDue()
  expect(hook.calls).toEqual([])
  expect((await act(till, id, 'replay', { from })).json().events).toBe(3)
  await service.endpoints.sendDue()
  expect(new Map(hook.calls.map((one) => [bodyOf(one).id, bodyOf(one).resource.id]))).toEqual(ids)

  hook.reset()
  const [[eventId] = ['']] = ids
  expect((await act(till, id, 'replay', { event_id: eventId })).json().events).toBe(1)
  await service.endpoints.sendDue()
  expect(hook.calls.map((one) => bodyOf(one).id)).toEqual([eventId])

  answers('/again', 500)
  await writeEvent(service, 'again', 'o4')
  await service.endpoints.sendDue()
  hook.reset()
  expect((await act(till, id, 'replay', { failed: true })).json().events).toBe(1)
  await service.endpoints.sendDue()
  expect(at('again')).toEqual(['o4'])
})

test('while a secret is exchanged both sign; without an overlap the new one alone does', async () => {
  const { till, id, secret } = await open('rotating')
  const rotated = (await act(till, id, 'rotate', { overlap_seconds: 3_600 })).json()
  expect(rotated.secret).not.toBe(secret)
  await writeEvent(service, 'rotating', 'o1')
  await service.endpoints.sendDue()
  const [both] = hook.calls as [Call]
  expect(headersOf(both)['webhook-signature']?.split(' ')).toHaveLength(2)
  for (const valid of [secret, rotated.secret]) {
    expect(verify(valid, both)).toMatchObject({ type: 'order.paid' })
  }

  service.clock.advance(hourMs + 1_000)
  await writeEvent(service, 'rotating', 'o2')
  await service.endpoints.sendDue()
  const later = hook.calls[1] as Call
  expect(headersOf(later)['webhook-signature']?.split(' ')).toHaveLength(1)

  const last = (await act(till, id, 'rotate', { overlap_seconds: 0 })).json()
  expect(last.former_secret_until).toBeNull()
  await act(till, id, 'ping')
  const ping = hook.calls[2] as Call
  expect(headersOf(ping)['webhook-signature']?.split(' ')).toHaveLength(1)
})

test('a ping arrives also at a stopped endpoint, and its attempt is listed', async () => {
  const { till, id } = await open('pinged')
  expect((await act(till, id, 'stop')).json()).toMatchObject({
    state: 'stopped',
    stop_reason: 'person',
  })
  answers('/pinged', 204)
  expect((await act(till, id, 'ping')).json()).toMatchObject({ success: true, status: 204 })
  expect(JSON.parse((hook.calls[0] as Call).body)).toMatchObject({
    type: 'ping',
    data: { endpoint_id: id, client: 'pinged' },
  })
  expect(await attemptsOf(till, id)).toMatchObject([{ event_id: null, type: 'ping', status: 204 }])
})

test('a person who stops an endpoint is not notified of it', async () => {
  const { till, id } = await open('chosen')
  await act(till, id, 'stop')
  service.clock.advance(15_000)
  await service.notifications.checkOnce()
  const bodies = hook.bodies().filter(({ type }) => type === 'endpoints.stopped')
  expect(bodies).toEqual([])
})

test('an endpoint gets only the events of its types, its box and its store', async () => {
  await open('chooser', { types: ['order.paid'], caja_id: 'CAJA-2', sucursal_id: 'SUC-1' })
  await writeEvent(service, 'chooser', 'o1')
  await writeEvent(service, 'chooser', 'o2', { cajaId: 'CAJA-2' })
  await writeEvent(service, 'chooser', 'o3', { cajaId: 'CAJA-2', type: 'order.refunded' })
  await service.endpoints.sendDue()
  expect(at('chooser')).toEqual(['o2'])
})

test('a change of the filter leaves out what no longer fits, and a new address gets at once what failed', async () => {
  const { till, id } = await open('changer')
  answers('/changer', 500)
  await writeEvent(service, 'changer', 'o1')
  await writeEvent(service, 'changer', 'o2', { type: 'order.refunded' })
  await service.endpoints.sendDue()
  hook.reset()
  const changed = await call(service, {
    method: 'PATCH',
    url: `${endpointsPath}/${id}`,
    token: till.key,
    body: { url: `${hook.url}/changed`, types: ['order.refunded'] },
  })
  expect(changed.json()).toMatchObject({ url: `${hook.url}/changed`, waiting: 1, failures: 0 })
  await service.endpoints.sendDue()
  expect(hook.calls.map(({ url }) => url)).toEqual(['/changed'])
  expect(at('changed')).toEqual(['o2'])
})

test('a process that loses its lease with requests under way is followed by one that sends the same events under the same ids', async () => {
  const { till, id } = await open('paused')
  for (const resource of ['o1', 'o2', 'o1']) await writeEvent(service, 'paused', resource)
  const pending: (() => void)[] = []
  hook.answer = (response) => pending.push(() => response.end())
  const twin = await startTwin()
  const sending = twin.endpoints.sendDue()
  await expect.poll(() => pending.length).toBe(2)
  const sent = hook.calls.map((one) => bodyOf(one).id)
  service.clock.advance(11_000)
  hook.reset()
  await service.endpoints.sendDue()
  expect(at('paused')).toHaveLength(3)
  expect(hook.calls.map((one) => bodyOf(one).id)).toEqual(expect.arrayContaining(sent))
  // What the first one learns now changes nothing.
  for (const end of pending) end()
  await sending
  expect(await attemptsOf(till, id)).toHaveLength(3)
  expect(await readEndpoint(service, till, id)).toMatchObject({ waiting: 0 })
  await twin.stop()
})

test('while one process sends to an endpoint another one does not', async () => {
  await open('alone')
  const twin = await startTwin()
  const pending: (() => void)[] = []
  hook.answer = (response) => pending.push(() => response.end())
  await writeEvent(service, 'alone', 'o1')
  const first = service.endpoints.sendDue()
  await expect.poll(() => pending.length).toBe(1)
  await twin.endpoints.sendDue()
  expect(hook.calls).toHaveLength(1)
  pending[0]?.()
  await first
  await twin.endpoints.sendDue()
  expect(hook.calls).toHaveLength(1)
  await twin.stop()
})

/** Answers come when the test asks for them. */
function heldAnswers() {
  const held: ((status: number) => void)[] = []
  hook.answer = (response) => held.push((status) => response.writeHead(status).end())
  return {
    held,
    /** All that are held, and all that come later. */
    release(status = 204) {
      hook.answer = (response) => response.writeHead(204).end()
      for (const end of held.splice(0)) end(status)
    },
  }
}

/** More events than are sent at once, each of another resource, and ten of them under way. */
async function openBusy(client: string) {
  const made = await open(client)
  for (let event = 0; event < 20; event += 1) await writeEvent(service, client, `o${event}`)
  const answers = heldAnswers()
  const sending = service.endpoints.sendDue()
  await expect.poll(() => answers.held.length).toBe(10)
  return { ...made, ...answers, sending }
}

test('a process that stood still past its lease begins nothing that it read before, so the order of a resource stays', async () => {
  await open('stood')
  for (let event = 0; event < 10; event += 1) await writeEvent(service, 'stood', `o${event}`)
  await writeEvent(service, 'stood', 'last')
  const twin = await startTwin()
  const { held, release } = heldAnswers()
  const sending = twin.endpoints.sendDue()
  await expect.poll(() => held.length).toBe(10)
  const ends = held.splice(0)
  release()
  service.clock.advance(11_000)
  await writeEvent(service, 'stood', 'last')
  await service.endpoints.sendDue()
  expect(at('stood').filter((resource) => resource === 'last')).toHaveLength(2)
  for (const end of ends) end(204)
  await sending
  expect(at('stood').filter((resource) => resource === 'last')).toHaveLength(2)
  await twin.stop()
})

test('a process that stood still right before the first byte sends nothing, and the event comes from the next one', async () => {
  const { till, id } = await open('still')
  await writeEvent(service, 'still', 'o1')
  const { database, encryptionKeys, clock } = service
  const client = createEndpointClient(
    { now: clock.now, stopwatch: () => performance.now(), recordAttempt: () => undefined },
    { allowPrivateNetwork: true },
  )
  const deps = {
    ...{ database, now: clock.now, processId: 'still', log: createLogger('silent') },
    encryption: createEncryption(encryptionKeys),
    sleep: () => Promise.resolve(),
    endpointClient: {
      ...client,
      async send(...request: Parameters<EndpointClient['send']>) {
        clock.advance(11_000)
        await service.endpoints.sendDue()
        return client.send(...request)
      },
    },
  }
  const key = { client: 'still' as never, id }
  const { signal } = new AbortController()
  await numberCommitted(database)
  const sending = withLease(deps, `event-endpoint:${id}`, (lease) =>
    new EndpointSender(deps, key, lease, { stopped: signal, abandoned: signal }).run(),
  )
  await sending.catch((error) => expect(error).toBeInstanceOf(LeaseLostError))
  expect(at('still')).toEqual(['o1'])
  expect(await attemptsOf(till, id)).toHaveLength(1)
  await client.close()
})

test.each([
  { what: 'stop', change: ({ till, id }) => act(till, id, 'stop') },
  { what: 'skip', change: ({ till, id }) => act(till, id, 'skip') },
  {
    what: 'delete',
    change: ({ till, id }) =>
      call(service, { method: 'DELETE', url: `${endpointsPath}/${id}`, token: till.key }),
  },
] satisfies {
  what: string
  change: (busy: Awaited<ReturnType<typeof openBusy>>) => Promise<unknown>
}[])('after a $what only what is under way arrives', async ({ what, change }) => {
  const busy = await openBusy(`after-${what}`)
  await change(busy)
  busy.release()
  await busy.sending
  expect(at(`after-${what}`)).toHaveLength(10)
})

test('an endpoint that answers 410 gets no further event', async () => {
  const { release, sending } = await openBusy('just-gone')
  release(410)
  await sending
  expect(at('just-gone')).toHaveLength(10)
})

test('a new address and a new secret count for the next request', async () => {
  const { till, id, release, sending } = await openBusy('moving')
  await call(service, {
    method: 'PATCH',
    url: `${endpointsPath}/${id}`,
    token: till.key,
    body: { url: `${hook.url}/moved-to` },
  })
  const { secret } = (await act(till, id, 'rotate', { overlap_seconds: 0 })).json()
  release()
  await sending
  expect([at('moving').length, at('moved-to').length]).toEqual([10, 10])
  const last = hook.calls.findLast(({ url }) => url === '/moved-to') as Call
  expect(verify(secret, last)).toMatchObject({ type: 'order.paid' })
})
