import type { Selectable } from 'kysely'
import { Webhook } from 'standardwebhooks'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { loadConfig } from '../../src/app/config.ts'
import type { FleetStatesTable } from '../../src/db/tables.ts'
import { Notifications } from '../../src/notifications/notifications.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { testSettings } from '../support/test-settings.ts'
import { asAdmin } from '../support/till.ts'
import { openHttpReceiver, openMailReceiver } from './receivers.ts'

/** Each receiver gets each problem once, and its recovery once. */
const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
let service: TestService
let hook: Awaited<ReturnType<typeof openHttpReceiver>>
let slack: Awaited<ReturnType<typeof openHttpReceiver>>
let smtp: Awaited<ReturnType<typeof openMailReceiver>>
const open: TestService[] = []

beforeAll(async () => {
  hook = await openHttpReceiver()
  slack = await openHttpReceiver()
  smtp = await openMailReceiver()
  service = await startTestService({ env: settings() })
})
beforeEach(() => {
  hook.reset()
  slack.reset()
  smtp.mails.length = 0
})
afterEach(async () => {
  vi.useRealTimers()
  for (const one of open.splice(0)) await one.stop()
  await service.database.db.deleteFrom('fleet_states').execute()
  await service.database.db.deleteFrom('alert_troubles').execute()
  await service.database.db.deleteFrom('alert_messages').execute()
})
afterAll(async () => {
  await service.stop()
  await Promise.all([hook.close(), slack.close(), smtp.close()])
})

function settings(more: Record<string, string> = {}): Record<string, string> {
  return {
    ALERT_MAIL_TO: 'caja@shop.example, jefa@shop.example',
    ALERT_SLACK_URL: `${slack.url}/services/T0/B0/slackcanary`,
    ALERT_WEBHOOK_URL: `${hook.url}/hook?token=tokencanary`,
    ALERT_WEBHOOK_SECRET: secret,
    ALERT_PRIVATE_NETWORK: 'true',
    ALERT_LANGUAGE: 'en',
    SMTP_URL: smtp.url,
    MAIL_FROM: 'alerts@shop.example',
    ...more,
  }
}

/** Another process on the same database, with its own receivers. */
async function duplicate(env = settings()): Promise<Notifications> {
  const other = await startTestService({ twinOf: service, env })
  open.push(other)
  return other.notifications
}

type State = Pick<Selectable<FleetStatesTable>, 'kind' | 'scope' | 'name' | 'state' | 'cause'>
const box = (scope: string, name: string, cause: string): State => ({
  kind: 'box',
  scope,
  name,
  state: 'down',
  cause,
})

/** Writes states as the fleet does: one row for each subject. */
async function setState(...states: State[]): Promise<void> {
  for (const { state, cause, ...subject } of states) {
    await service.database.db
      .insertInto('fleet_states')
      .values({ ...subject, state, cause, since: service.clock.now(), about: '{}' })
      .onConflict((conflict) =>
        conflict.columns(['kind', 'scope', 'name']).doUpdateSet({ state, cause }),
      )
      .execute()
  }
}
const setOk = (...states: State[]) =>
  setState(...states.map((one) => ({ ...one, state: 'ok' as const, cause: null })))

/** Runs the check as often as the service does, for this time. */
async function check(
  seconds: number,
  alerts: Notifications = service.notifications,
): Promise<void> {
  for (let passed = 0; passed < seconds; passed += 2) {
    service.clock.advance(2_000)
    await alerts.checkOnce()
  }
}

type Event = {
  type: string
  data: { cause: string; subjects: { client?: string }[]; more: number; dependents: number }
}
const events = () => hook.calls.map(({ body }) => JSON.parse(body) as Event)
const received = () => events().map(({ type, data }) => `${type} ${data.cause}`)

test('every receiver gets each problem once within a minute, and its recovery once', {
  tags: ['long'],
}, async () => {
  const troubles = [
    box('acme', 'CAJA-1', 'terminal_standalone'),
    box('acme', 'CAJA-2', 'terminal_missing'),
    box('other', 'CAJA-1', 'terminal_busy'),
    { kind: 'connection', scope: 'third', name: '', state: 'down', cause: 'connection_lost' },
    {
      kind: 'destination',
      scope: 'articulos',
      name: 'web',
      state: 'down',
      cause: 'destination_failing',
    },
  ] satisfies State[]
  const causes = troubles.map(({ cause }) => cause).sort()
  await check(4)
  expect(hook.calls).toEqual([])
  await setState(...troubles)
  await check(60)
  expect(received().sort()).toEqual(causes.map((cause) => `fleet.trouble ${cause}`))
  expect([slack.calls.length, smtp.mails.length]).toEqual([causes.length, causes.length])
  await check(60)
  expect(received()).toHaveLength(causes.length)

  hook.reset()
  slack.reset()
  smtp.mails.length = 0
  await setOk(...troubles)
  await check(60)
  expect(received().sort()).toEqual(causes.map((cause) => `fleet.recovered ${cause}`))
  expect([slack.calls.length, smtp.mails.length]).toEqual([causes.length, causes.length])
  await check(60)
  expect(received()).toHaveLength(causes.length)
})

test('a message is signed, names subject, cause and action, and the log shows no secret of a receiver', {
  tags: ['long'],
}, async () => {
  await setState(box('acme', 'CAJA-7', 'terminal_silent'))
  await check(30)
  const [call] = hook.calls
  // The receiver compares the time of the message with its own clock.
  vi.useFakeTimers({ toFake: ['Date'], now: service.clock.now() })
  const body = new Webhook(secret).verify(call?.body ?? '', call?.headers as never) as Event
  vi.useRealTimers()
  expect(body).toMatchObject({
    type: 'fleet.trouble',
    data: {
      cause: 'terminal_silent',
      action: 'check_terminal_power',
      subjects: [{ kind: 'box', client: 'acme', caja_id: 'CAJA-7', state: 'down' }],
    },
  })
  const [mail] = smtp.mails
  expect(mail?.to).toEqual(['caja@shop.example', 'jefa@shop.example'])
  expect(mail?.head).toContain('acme, box CAJA-7: The terminal has not answered')
  expect(mail?.text).toContain('GET /health/fleet?only=problems')
  expect(JSON.parse(slack.calls[0]?.body ?? '').text).toContain('acme, box CAJA-7')
  const log = service.logLines.join('')
  expect(log).toContain('notification sent')
  for (const canary of ['slackcanary', 'tokencanary', secret]) expect(log).not.toContain(canary)
})

test('one cause at several clients makes one message, with the number of dependent boxes', {
  tags: ['long'],
}, async () => {
  const connection = (scope: string): State => ({
    kind: 'connection',
    scope,
    name: '',
    state: 'down',
    cause: 'connection_lost',
  })
  await setState(connection('acme'), connection('other'))
  await setState(box('acme', '1', 'connection_lost'), box('acme', '2', 'connection_lost'))
  await check(30)
  expect(events()).toMatchObject([
    {
      type: 'fleet.trouble',
      data: {
        cause: 'connection_lost',
        subjects: [{ client: 'acme' }, { client: 'other' }],
        dependents: 2,
      },
    },
  ])
  // A later one gets its own message.
  await setState(connection('third'))
  await check(30)
  expect(events()[1]).toMatchObject({ data: { subjects: [{ client: 'third' }], dependents: 0 } })
})

test('a message lists 20 subjects and gives the number of the others', {
  tags: ['long'],
}, async () => {
  const many = Array.from({ length: 30 }, (_, index) => box('acme', `C-${index}`, 'refused'))
  await setState(...many)
  await check(30)
  expect(events()).toHaveLength(1)
  expect(events()[0]?.data.subjects).toHaveLength(20)
  expect(events()[0]?.data.more).toBe(10)
})

test('a problem that ends before its notification is not notified, and one that returns at once did not recover', {
  tags: ['long'],
}, async () => {
  const short = box('acme', 'CAJA-1', 'terminal_silent')
  await setState(short)
  await check(4)
  await setOk(short)
  await check(60)
  expect(hook.calls).toEqual([])
  await setState(short)
  await check(30)
  await setOk(short)
  await check(4)
  await setState(short)
  await check(60)
  expect(received()).toEqual(['fleet.trouble terminal_silent'])
})

test('another cause of the same box is notified again; its recovery once', {
  tags: ['long'],
}, async () => {
  await setState(box('acme', 'CAJA-1', 'terminal_silent'))
  await check(30)
  await setState(box('acme', 'CAJA-1', 'terminal_missing'))
  await check(30)
  await setOk(box('acme', 'CAJA-1', 'terminal_missing'))
  await check(30)
  expect(received()).toEqual([
    'fleet.trouble terminal_silent',
    'fleet.trouble terminal_missing',
    'fleet.recovered terminal_missing',
  ])
})

test('states that a person caused on purpose, and those that only need attention, are not notified', {
  tags: ['long'],
}, async () => {
  await setState(
    { kind: 'flow', scope: '', name: 'a', state: 'attention', cause: 'flow_paused' },
    { kind: 'connection', scope: 'new', name: '', state: 'down', cause: 'not_connected' },
    { kind: 'box', scope: 'acme', name: '1', state: 'attention', cause: 'terminal_busy' },
    { kind: 'box', scope: 'acme', name: '2', state: 'unknown', cause: 'quiet' },
  )
  await check(60)
  expect(hook.calls).toEqual([])
  // An order in doubt is notified before the box is down.
  await setState({ kind: 'box', scope: 'acme', name: '3', state: 'attention', cause: 'in_doubt' })
  await check(30)
  expect(received()).toEqual(['fleet.trouble in_doubt'])
})

test('a message that one process could not send is sent by the next under the same id', {
  tags: ['long'],
}, async () => {
  hook.answer = (response) => response.destroy()
  await setState(box('acme', 'CAJA-1', 'terminal_silent'))
  await check(14)
  expect(hook.calls).toHaveLength(1)
  hook.answer = (response) => response.end()
  const next = await duplicate()
  await check(60, next)
  expect(hook.calls.length).toBeGreaterThanOrEqual(2)
  expect(new Set(hook.calls.map(({ headers }) => headers['webhook-id'])).size).toBe(1)
  // The other receivers do not get it again.
  expect([slack.calls.length, smtp.mails.length]).toEqual([1, 1])
})

test('two processes notify each problem once', { tags: ['long'] }, async () => {
  const other = await duplicate()
  await setState(box('acme', 'CAJA-1', 'terminal_silent'), box('acme', 'CAJA-2', 'refused'))
  for (let passed = 0; passed < 40; passed += 2) {
    service.clock.advance(2_000)
    await Promise.all([service.notifications.checkOnce(), other.checkOnce()])
  }
  expect(received().sort()).toEqual(['fleet.trouble refused', 'fleet.trouble terminal_silent'])
  expect(slack.calls).toHaveLength(2)
})

test('a receiver that is down delays no other, and gets the message when it is up again', {
  tags: ['long'],
}, async () => {
  slack.answer = (response) => response.writeHead(503).end()
  await setState(box('acme', 'CAJA-1', 'terminal_silent'))
  await check(30)
  expect(received()).toEqual(['fleet.trouble terminal_silent'])
  const tried = slack.calls.length
  expect(tried).toBeGreaterThanOrEqual(1)
  slack.answer = (response) => response.end()
  await check(120)
  expect(slack.calls.length).toBe(tried + 1)
  expect(hook.calls).toHaveLength(1)
})

test('a message that its receiver refuses delays no later one', { tags: ['long'] }, async () => {
  // Such as one that is too large for it.
  hook.answer = (response, { body }) =>
    response.writeHead(body.includes('terminal_silent') ? 413 : 200).end()
  await setState(box('acme', 'CAJA-1', 'terminal_silent'))
  await check(30)
  await setState(box('acme', 'CAJA-2', 'terminal_busy'))
  await check(60)
  expect(received()).toContain('fleet.trouble terminal_busy')
  hook.answer = (response) => response.end()
  service.clock.advance(15 * 60_000)
  await check(2)
  expect(received().filter((one) => one.endsWith('terminal_busy'))).toHaveLength(1)
  expect(received().at(-1)).toBe('fleet.trouble terminal_silent')
})

test('a receiver that refuses every message is not sent all of them at once', {
  tags: ['long'],
}, async () => {
  hook.answer = (response) => response.writeHead(404).end()
  const causes = ['terminal_silent', 'terminal_busy', 'terminal_missing', 'refused', 'no_tokens']
  await setState(...causes.map((cause, index) => box('acme', `CAJA-${index}`, cause)))
  for (let round = 0; round < 30 && slack.calls.length === 0; round += 1) await check(2)
  expect([slack.calls.length, hook.calls.length]).toEqual([causes.length, 3])
  hook.answer = (response) => response.end()
  service.clock.advance(15 * 60_000)
  await check(2)
  expect(new Set(received().slice(3)).size).toBe(causes.length)
})

test('in quiet hours nothing is sent; at their end only the problems that last are notified', {
  tags: ['long'],
}, async () => {
  const now = service.clock.now()
  const time = (ms: number) => new Date(now.getTime() + ms).toISOString().slice(11, 16)
  const quiet = `${time(-3_600_000)}-${time(600_000)} UTC`
  const quietProcess = await duplicate(settings({ ALERT_QUIET_HOURS: quiet }))
  await setState(box('acme', 'CAJA-1', 'terminal_silent'), box('acme', 'CAJA-2', 'refused'))
  await check(60, quietProcess)
  await setOk(box('acme', 'CAJA-2', 'refused'))
  await check(60, quietProcess)
  expect(hook.calls).toEqual([])
  service.clock.advance(900_000)
  await check(30, quietProcess)
  expect(received()).toEqual(['fleet.trouble terminal_silent'])
})

test('a database that takes no writes is notified once without it, and its recovery once', {
  tags: ['long'],
}, async () => {
  let takesWrites = true
  const database = { ...service.database, takesWrites: async () => takesWrites }
  const config = loadConfig({ ...testSettings, ...settings() })
  const { deps } = service
  const alerts = new Notifications(
    {
      database,
      now: deps.now,
      sleep: deps.sleep,
      processId: 'another',
      mail: { smtpUrl: config.smtpUrl, mailFrom: config.mailFrom },
      log: deps.log,
    },
    config.alerts,
  )
  const types = () => events().map(({ type }) => type)
  takesWrites = false
  await check(10, alerts)
  expect(types()).toEqual([])
  await check(60, alerts)
  expect(types()).toEqual(['service.database_down'])
  takesWrites = true
  await check(60, alerts)
  expect(types()).toEqual(['service.database_down', 'service.database_recovered'])
  expect([slack.calls.length, smtp.mails.length]).toEqual([2, 2])
  // A short restart is not notified.
  takesWrites = false
  await check(10, alerts)
  takesWrites = true
  await check(20, alerts)
  expect(hook.calls).toHaveLength(2)
  await alerts.stop()
})

test('the test route lists the receivers that got the test, and the audit log has it', {
  tags: ['long'],
}, async () => {
  const send = () => asAdmin(service, { method: 'POST', url: '/admin/alerts/test' })
  const complete = await send()
  expect(complete.statusCode, complete.body).toBe(200)
  const results = complete.json().results as { type: string; ok: boolean; target: string }[]
  expect(results.map(({ type, ok }) => [type, ok])).toEqual([
    ['email', true],
    ['slack', true],
    ['webhook', true],
  ])
  expect(complete.body).not.toMatch(/slackcanary|tokencanary/)
  expect(events()[0]?.type).toBe('fleet.test')
  hook.answer = (response) => response.writeHead(500).end()
  const part = await send()
  expect(part.statusCode).toBe(207)
  expect(part.json().results[2]).toMatchObject({ ok: false, error: 'HTTP 500' })
  const { logs } = (await asAdmin(service, { url: '/admin/activity?action=alerts.tested' })).json()
  expect(logs).toMatchObject([
    { metadata: { arrived: 2, receivers: 3 } },
    { metadata: { arrived: 3 } },
  ])
})
