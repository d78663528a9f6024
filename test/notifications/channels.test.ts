import { Webhook } from 'standardwebhooks'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { ChannelDefinition, ChannelDeps } from '../../src/notifications/channel.ts'
import {
  type FailureMessage,
  failureNotification,
  flowTestNotification,
} from '../../src/notifications/failure-message.ts'
import { openChannel, testChannels } from '../../src/notifications/open-channel.ts'
import { createGuardedAgent } from '../../src/outbound/guarded-agent.ts'
import { type Reason, sentenceOf } from '../../src/texts/reason.ts'
import { alertsOf, openHttpReceiver, openMailReceiver, openTarPit } from './receivers.ts'

const variable = (name: string) => `\${env:${name}}`
const slackPath = 'services/T0CANARY/B0CANARY/slackcanary'
const now = () => new Date()

let http: Awaited<ReturnType<typeof openHttpReceiver>>
let smtp: Awaited<ReturnType<typeof openMailReceiver>>
const agent = createGuardedAgent({ allowPrivateNetwork: true })

beforeAll(async () => {
  http = await openHttpReceiver()
  smtp = await openMailReceiver({
    onRcptTo: ({ address }, _session, done) =>
      done(address.startsWith('unknown') ? new Error('no such user') : null),
  })
})

afterEach(() => {
  http.reset()
  smtp.mails.length = 0
})

afterAll(async () => {
  await agent.destroy()
  await Promise.all([http.close(), smtp.close()])
})

function env(): Record<string, string> {
  return {
    SLACK_URL: `${http.url}/${slackPath}`,
    TOKEN: 'tokencanary',
    HOOK_SECRET: 'k'.repeat(32),
  }
}

function flow(onJobFailed: object[], values = env()) {
  return {
    name: 'stores',
    allowPrivateNetwork: true,
    alerts: alertsOf({ onJobFailed }, values),
  }
}

function deps(mail: { smtpUrl?: string; mailFrom?: string } = {}) {
  return {
    mail: { smtpUrl: smtp.url, mailFrom: 'Tillbridge <alerts@shop.example>', ...mail },
    now,
    timeoutMs: 5_000,
  }
}

/** What the route of a flow does. */
function testAlerts(
  { name, alerts, allowPrivateNetwork }: FlowToTest,
  given: Pick<ChannelDeps, 'mail' | 'now'> & { timeoutMs?: number },
) {
  const message = () => flowTestNotification(name, { id: 'msg_0', at: now().toISOString() })
  return testChannels(alerts.onJobFailed, message, { ...given, allowPrivateNetwork }).then(
    (results) => results.map(inWords),
  )
}

/** What is wrong as its sentence. */
function inWords({ why, ...result }: { ok: boolean; why?: Reason }) {
  return { ...result, ...(why && { error: sentenceOf(why, 'en') }) }
}

type FlowToTest = {
  name: string
  allowPrivateNetwork: boolean
  alerts: { onJobFailed: readonly ChannelDefinition[] }
}

/** One message through one channel. */
function send(definition: object, message: FailureMessage, values = env()) {
  const [parsed] = flow([definition], values).alerts.onJobFailed
  if (!parsed) throw new Error('one channel is expected')
  return openChannel(parsed, { ...deps(), agent })
    .send(failureNotification(message))
    .then(inWords)
}

const failed = (
  change: Partial<Extract<FailureMessage, { kind: 'deliveries_failed' }>> = {},
): FailureMessage => ({
  kind: 'deliveries_failed',
  id: 'msg_1',
  at: '2026-11-21T14:30:00.000Z',
  flow: 'stores',
  destination: 'web',
  failed: 1_000,
  open: 998,
  since: '2026-11-21T14:29:30.000Z',
  examples: [
    {
      pk: 'SUC-1',
      error: 'HTTP 422 (text/plain) name is missing',
      attempts: 5,
      at: '2026-11-21T14:29:30.000Z',
    },
  ],
  ...change,
})

const hostile = {
  pk: 'a\r\nBcc: evil@evil.example\r\n\r\n<script>alert(1)</script>',
  error: '<!channel> <@U1> & <http://evil.example|click> `x`\u202e\u0000\u2028end',
  attempts: 1,
  at: '2026-11-21T14:29:30.000Z',
}

test('a test goes to every channel, whatever its filter, and answers in order with masked targets', async () => {
  const results = await testAlerts(
    flow([
      { type: 'email', to: ['one@acme.example', 'two@acme.example'], destinations: ['other'] },
      { type: 'slack', url: variable('SLACK_URL'), destinations: ['other'] },
      {
        type: 'webhook',
        url: `${http.url}/hook/${variable('TOKEN')}/end?key=${variable('TOKEN')}`,
        secret: variable('HOOK_SECRET'),
      },
    ]),
    deps(),
  )
  expect(results).toEqual([
    { type: 'email', target: 'one@acme.example, two@acme.example', ok: true },
    { type: 'slack', target: `${http.url}/***`, ok: true },
    { type: 'webhook', target: `${http.url}/hook/***/end?***`, ok: true },
  ])
  expect(smtp.mails).toMatchObject([
    { from: 'alerts@shop.example', to: ['one@acme.example', 'two@acme.example'] },
  ])
  expect(http.calls.map(({ url }) => url).sort()).toEqual([
    '/hook/tokencanary/end?key=tokencanary',
    `/${slackPath}`,
  ])
})

test('a flow without channels has no results', async () => {
  expect(await testAlerts(flow([]), deps())).toEqual([])
})

test('T41: each channel fails for itself, and no error or target contains a secret', async () => {
  http.answer = (response, call) =>
    // A receiver whose answer repeats our secrets.
    response.writeHead(403, { 'content-type': 'text/plain' }).end(`${call.url} ${call.body}`)
  const login = await openMailReceiver({
    authOptional: false,
    onAuth: ({ username, password }, _session, done) =>
      done(new Error(`wrong ${username} ${password}`)),
  })
  const smtpUrl = login.url.replace('//', '//usercanary:passwordcanary@')
  const results = await testAlerts(
    flow([
      { type: 'email', to: 'one@acme.example' },
      { type: 'slack', url: variable('SLACK_URL') },
      { type: 'webhook', url: `${http.url}/${variable('TOKEN')}?t=${variable('TOKEN')}` },
    ]),
    deps({ smtpUrl }),
  )
  await login.close()
  expect(results.map(({ ok, error }) => [ok, error])).toEqual([
    [false, 'the mail server refused the login (535)'],
    [false, 'HTTP 403'],
    [false, 'HTTP 403'],
  ])
  const text = JSON.stringify(results)
  expect(text).not.toMatch(/canary|k{32}/i)
})

test.each([
  ['channel_is_archived', 'HTTP 404 (channel_is_archived)'],
  ['slackcanary', 'HTTP 404'],
  ['<html>no_service</html>', 'HTTP 404'],
])('the error of a refusal by Slack contains only its code: %s', async (body, error) => {
  http.answer = (response) => response.writeHead(404).end(body)
  expect(await send({ type: 'slack', url: variable('SLACK_URL') }, failed())).toEqual({
    ok: false,
    isRefused: true,
    error,
  })
})

test('the Retry-After of a receiver is in the result', async () => {
  http.answer = (response) => response.writeHead(429, { 'retry-after': '30' }).end()
  expect(await send({ type: 'slack', url: variable('SLACK_URL') }, failed())).toEqual({
    ok: false,
    error: 'HTTP 429',
    retryAfterSeconds: 30,
  })
})

test('a redirect is not followed', async () => {
  const canary = await openHttpReceiver()
  http.answer = (response) => response.writeHead(307, { location: canary.url }).end()
  const results = await testAlerts(
    flow([
      { type: 'slack', url: variable('SLACK_URL') },
      { type: 'webhook', url: `${http.url}/x` },
    ]),
    deps(),
  )
  await canary.close()
  expect(results.map(({ error }) => error)).toEqual(
    Array(2).fill('HTTP 307 (redirects are not followed)'),
  )
  expect(canary.calls).toHaveLength(0)
})

test('private addresses need allowPrivateNetwork, and cloud metadata is never called', async () => {
  const closed = { ...flow([{ type: 'webhook', url: http.url }]), allowPrivateNetwork: false }
  expect(await testAlerts(closed, deps())).toMatchObject([
    { ok: false, error: expect.stringContaining('allowPrivateNetwork') },
  ])
  expect(http.calls).toHaveLength(0)
  const metadata = ['http://169.254.169.254/hook', 'http://metadata.google.internal/hook']
  for (const url of metadata) {
    expect(await testAlerts(flow([{ type: 'webhook', url }]), deps())).toMatchObject([
      { ok: false, error: expect.stringContaining('never called') },
    ])
  }
})

test('receivers that never finish time out together, and their connections are closed', {
  tags: ['long'],
}, async () => {
  const web = await openTarPit('H')
  const mail = await openTarPit('220-wait\r\n')
  const began = performance.now()
  const results = await testAlerts(
    flow([
      { type: 'email', to: 'one@acme.example' },
      { type: 'webhook', url: `http://${web.host}/hook` },
    ]),
    { ...deps({ smtpUrl: `smtp://${mail.host}` }), timeoutMs: 300 },
  )
  expect(performance.now() - began).toBeLessThan(3_000)
  expect(results.map(({ ok }) => ok)).toEqual([false, false])
  expect(results[0]?.error).toBe('the mail server did not accept the mail within 0.3 s')
  await expect.poll(() => web.open() + mail.open(), { timeout: 10_000 }).toBe(0)
  await Promise.all([web.close(), mail.close()])
})

test('the error names an unreachable mail server and missing settings', async () => {
  const mailer = flow([{ type: 'email', to: 'one@acme.example' }])
  expect(await testAlerts(mailer, deps({ smtpUrl: 'smtp://127.0.0.1:1' }))).toMatchObject([
    { ok: false, error: 'no connection to the mail server' },
  ])
  const unset = { ...deps(), mail: { smtpUrl: undefined, mailFrom: undefined } }
  expect(await testAlerts(mailer, unset)).toMatchObject([
    { ok: false, error: 'SMTP_URL and MAIL_FROM are not set' },
  ])
})

test('a mail that only some addresses took is partly sent', { tags: ['long'] }, async () => {
  const to = ['one@acme.example', 'unknown@acme.example']
  expect(await send({ type: 'email', to }, failed())).toEqual({
    ok: false,
    partly: true,
    error: 'the mail server refused 1 of 2 addresses',
  })
  expect(smtp.mails[0]?.to).toEqual(['one@acme.example'])
  expect(await send({ type: 'email', to: 'unknown@acme.example' }, failed())).toEqual({
    ok: false,
    error: 'the mail server refused the sender or the addresses (550)',
  })
})

test.each([
  [552, { isRefused: true }],
  [451, {}],
])(
  'a mail that the server answers with %i after its content is refused, or may be sent again',
  async (responseCode, more) => {
    const strict = await openMailReceiver({
      onData: (stream, _session, done) => {
        stream.resume()
        stream.on('end', () => done(Object.assign(new Error('too large'), { responseCode })))
      },
    })
    const channel = openChannel(
      { type: 'email', to: ['one@acme.example'], locale: 'es' },
      { ...deps({ smtpUrl: strict.url }), agent, timeoutMs: 5_000 },
    )
    expect(await channel.send(failureNotification(failed()))).toEqual({
      ok: false,
      why: { code: 'MAIL_NOT_ACCEPTED', data: { status: String(responseCode) } },
      ...more,
    })
    await strict.close()
  },
)

test('a mail contains in its language what failed, how often and what to do', {
  tags: ['long'],
}, async () => {
  await send({ type: 'email', to: 'one@acme.example' }, failed())
  await send({ type: 'email', to: 'one@acme.example', locale: 'en' }, failed())
  const [spanish, english] = smtp.mails
  expect(spanish?.text).toContain('Fallas nuevas: 1000; sin entregar ahora: 998')
  expect(spanish?.text).toContain('- SUC-1: HTTP 422 (text/plain) name is missing')
  expect(spanish?.text).toContain('POST /flow/stores/retry {"destination":"web"}')
  expect(spanish?.head).toMatch(/^Content-Language: es$/m)
  expect(english?.text).toContain('New failures: 1000; not delivered now: 998')
  expect(english?.head).toMatch(/^Subject: \[tillbridge\] stores: 1000 deliveries to web failed$/m)
  expect(english?.head).toMatch(/^Message-ID: <msg_1@tillbridge>$/m)
  // RFC 5322, 3.3; filters take another form for a mark of junk.
  expect(english?.head).toMatch(/^Date: \w{3}, \d\d? \w{3} \d{4} \d\d:\d\d:\d\d \+0000$/m)
  expect(english?.head).toMatch(/^Auto-Submitted: auto-generated$/m)
})

test('T41: hostile texts add no header, no line and no recipient to a mail', {
  tags: ['long'],
}, async () => {
  await send({ type: 'email', to: 'one@acme.example' }, failed({ examples: [hostile] }))
  // Not even where a name could never come from a checked flow file.
  await send(
    { type: 'email', to: 'one@acme.example', locale: 'en' },
    failed({ flow: 'x\r\nBcc: evil@evil.example', destination: 'y\r\n\r\nbody' }),
  )
  const [first, second] = smtp.mails
  expect(first?.head).not.toMatch(/evil/)
  expect(first?.text).toContain('- a Bcc: evil@evil.example <script>alert(1)</script>: <!channel>')
  expect(first?.text.replace(/\r?\n/g, '')).not.toMatch(/\p{C}|\u2028/u)
  expect(second?.head).not.toMatch(/^Bcc/im)
  expect(smtp.mails.map(({ to }) => to)).toEqual([['one@acme.example'], ['one@acme.example']])
})

test('Slack gets one text in which hostile texts mention no person and make no link', async () => {
  const slack = { type: 'slack', url: variable('SLACK_URL') }
  await send(slack, failed({ examples: [hostile] }))
  const [body] = http.bodies()
  expect(body).toMatchObject({ unfurl_links: false, unfurl_media: false })
  expect(body.text).not.toMatch(/[<>]|&(?!amp;|lt;|gt;)/)
  const line = body.text.split('\n').find((text: string) => text.startsWith('•'))
  expect(line).toContain('&lt;!channel&gt; &lt;@U1&gt; &amp; ')
  // Two pieces of code, which a backtick of an item does not end.
  expect(line.split('`')).toHaveLength(5)
  expect(body.text.split('\n')).toHaveLength(6)
})

test.each([
  ['with whsec_', `whsec_${Buffer.alloc(32, 7).toString('base64')}`, undefined],
  ['of plain text', 'a plain secret of the operator', { format: 'raw' as const }],
])(
  'a signature by a secret %s is accepted by the reference library, and refused after any change',
  async (_, secret, form) => {
    const webhook = { type: 'webhook', url: `${http.url}/hook`, secret: variable('S') }
    await send(webhook, failed({ examples: [hostile] }), { S: secret })
    const [call] = http.calls
    const headers = call?.headers as Record<string, string>
    const verifier = new Webhook(secret, form)
    expect(verifier.verify(call?.body ?? '', headers)).toEqual({
      type: 'flow.failed',
      timestamp: '2026-11-21T14:30:00.000Z',
      data: {
        flow: 'stores',
        destination: 'web',
        failed: 1_000,
        open: 998,
        since: '2026-11-21T14:29:30.000Z',
        examples: [hostile],
        retry: { method: 'POST', path: '/flow/stores/retry', body: { destination: 'web' } },
      },
    })
    expect(headers['webhook-id']).toBe('msg_1')
    expect(() => verifier.verify(`${call?.body} `, headers)).toThrow('No matching signature')
    expect(() => verifier.verify(call?.body ?? '', { ...headers, 'webhook-id': 'msg_2' })).toThrow(
      'No matching signature',
    )
  },
)

test('without a secret a webhook is unsigned, and with a broken one it is not sent', async () => {
  const webhook = { type: 'webhook', url: `${http.url}/hook` }
  expect(await send(webhook, failed())).toEqual({ ok: true })
  expect(http.calls[0]?.headers).toMatchObject({
    'webhook-id': 'msg_1',
    'webhook-timestamp': expect.stringMatching(/^\d{10}$/),
    'content-type': 'application/json',
  })
  expect(http.calls[0]?.headers['webhook-signature']).toBeUndefined()
  const broken = await send({ ...webhook, secret: variable('S') }, failed(), {
    S: 'whsec_%%canary',
  })
  expect(broken).toMatchObject({ ok: false, error: expect.not.stringContaining('canary') })
  expect(http.calls).toHaveLength(1)
})
