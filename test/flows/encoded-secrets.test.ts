import { afterAll, beforeAll, expect, test } from 'vitest'
import { maskSecrets } from '../../src/flows/net/mask-secrets.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** A server that repeats our secret in another spelling does not get it into a log, an answer or an alert. */
const token = 'c4nary~T0ken/of+the"shop?ñ-_=1'
const bytes = Buffer.from(token)
const percent = (change: (byte: string) => string) =>
  [...bytes].map((byte) => `%${change(byte.toString(16).padStart(2, '0'))}`).join('')
const upper = (text: string) => text.toUpperCase()
const same = (text: string) => text

const spellings: [string, string][] = [
  ['as it is', token],
  ['base64', bytes.toString('base64')],
  ['base64 without padding', bytes.toString('base64').replaceAll('=', '')],
  ['base64url', bytes.toString('base64url')],
  ['base64 of the whole header', Buffer.from(`Bearer ${token}`).toString('base64')],
  ['base64 of a login', Buffer.from(`shop:${token}`).toString('base64')],
  ['base64 of base64', Buffer.from(bytes.toString('base64')).toString('base64')],
  ['base64 in lines', (bytes.toString('base64').match(/.{1,20}/g) ?? []).join('\r\n')],
  ['base64 in JSON with escaped slashes', bytes.toString('base64').replaceAll('/', '\\/')],
  ['percent-encoded', encodeURIComponent(token)],
  [
    'percent-encoded in small letters',
    encodeURIComponent(token).replace(/%../g, (found) => found.toLowerCase()),
  ],
  ['percent-encoded as a form', new URLSearchParams({ a: token }).toString().slice(2)],
  ['percent-encoded as a whole', percent(same)],
  ['percent-encoded as a whole, in capitals', percent(upper)],
  ['percent-encoded twice', encodeURIComponent(encodeURIComponent(token))],
  ['hex', bytes.toString('hex')],
  ['hex in capitals', upper(bytes.toString('hex'))],
  ['hex with colons', (bytes.toString('hex').match(/../g) ?? []).join(':')],
  ['JSON', JSON.stringify(token).slice(1, -1)],
  [
    'JSON with escapes of all but ASCII',
    JSON.stringify(token)
      .slice(1, -1)
      .replace(/[^ -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`),
  ],
  ['HTML', token.replaceAll('"', '&quot;').replaceAll('ñ', '&#241;')],
]

test.each(spellings)('%s', (_, spelling) => {
  const shown = maskSecrets(`before ${spelling} after`, [token, `Bearer ${token}`], '[masked]')
  expect(shown).toMatch(/^before .*\[masked\].* after$/s)
  // Only a few characters at the ends of the secret remain.
  const left = shown.replaceAll('[masked]', '').replace(/^before | after$/g, '')
  expect(left.length).toBeLessThanOrEqual(12)
  const plain = left.replace(/[^\w]/g, '')
  expect(plain.length === 0 || !token.includes(plain) || plain.length < 5).toBe(true)
})

test('words, numbers and times stay unchanged', () => {
  const text =
    'HTTP 422 (application/json) {"error":"no price for 1234567890 of 2026-11-21T10:00:00Z"}'
  expect(maskSecrets(text, [token], '[masked]')).toBe(text)
})

let target: TestTarget
let flows: TestFlows
beforeAll(async () => {
  target = await startTarget()
  const flow = jsonFlow('shop', target.url) as { destinations: { request: object }[] }
  flows = await startTestFlows({
    env: { SHOP_TOKEN: token.replace('ñ', 'n') },
    files: {
      'shop.flow.yaml': {
        ...flow,
        destinations: flow.destinations.map((one) => ({
          ...one,
          request: { ...one.request, headers: { authorization: `Bearer \${env:SHOP_TOKEN}` } },
        })),
      },
      'shop.json': [{ id: 'A' }],
    },
  })
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

test('an echo of the header in base64 or hex is in no log line and no answer', async () => {
  const sent = (authorization: unknown, form: 'base64' | 'base64url' | 'hex') =>
    Buffer.from(String(authorization)).toString(form)
  target.answer(422, { 'content-type': 'application/json' }, ({ headers }) =>
    JSON.stringify({
      a: sent(headers.authorization, 'base64'),
      b: sent(String(headers.authorization).slice(7), 'hex'),
    }),
  )
  await flows.flows.sync('shop', { force: true })
  await flows.delivered()
  const output = [
    ...flows.logLines,
    (await flows.call('GET', '/errors')).body,
    (await flows.call('GET', '/flow/shop/failures')).body,
    (await flows.call('GET', '/flow/shop/items/A')).body,
  ].join('\n')
  expect(output).toContain('HTTP 422')
  const secret = token.replace('ñ', 'n')
  for (const form of ['base64', 'base64url', 'hex'] as const) {
    for (const text of [secret, `Bearer ${secret}`]) {
      expect(output).not.toContain(Buffer.from(text).toString(form).slice(4, 20))
    }
  }
})

test('nor is one in the answer of a batch about its items, or in a wrong value', async () => {
  const echo = (authorization: unknown) => {
    const whole = String(authorization)
    const forms = [
      whole,
      encodeURIComponent(whole),
      Buffer.from(whole).toString('base64'),
      Buffer.from(whole.slice(7)).toString('hex'),
      `${'-'.repeat(185)}${whole}`,
    ]
    return forms
  }
  const headers = { authorization: `Bearer \${env:SHOP_TOKEN}` }
  const several = jsonFlow('several', target.url) as { destinations: object[] }
  const remembering = jsonFlow('remembering', target.url) as { destinations: object[] }
  const url = `${target.url}/together`
  await flows.write(
    'several.json',
    [1, 2, 3, 4, 5, 6].map((id) => ({ id: `${id}` })),
  )
  await flows.write('several.flow.yaml', {
    ...several,
    destinations: several.destinations.map((one) => ({
      ...one,
      retry: { attempts: 1 },
      batch: {
        size: 10,
        request: { method: 'POST', url, headers },
        answers: 'body.said.{ "ok": false, "error": $ }',
      },
    })),
  })
  await flows.write('remembering.json', [{ id: 'R' }])
  await flows.write('remembering.flow.yaml', {
    ...remembering,
    destinations: remembering.destinations.map((one) => ({
      ...one,
      request: { method: 'PUT', url: `${target.url}/one/{pk}`, headers },
      remember: { id: '$number(said[1])' },
    })),
  })
  target.answer(200, { 'content-type': 'application/json' }, ({ headers: { authorization } }) => {
    const [first, ...others] = echo(authorization)
    return JSON.stringify({ said: [{ deep: first }, first, ...others] })
  })
  await flows.flows.reload('test')
  for (const name of ['several', 'remembering']) await flows.flows.sync(name, { force: true })
  await flows.delivered()
  const pages = ['/errors', '/flow/several/failures', '/flow/several/items/1']
  const output = [
    ...flows.logLines,
    ...(await Promise.all(pages.map(async (page) => (await flows.call('GET', page)).body))),
  ].join('\n')
  expect(output).toContain('remember.id')
  const shown = JSON.parse((await flows.call('GET', '/errors?flow=several')).body)
  expect(shown.filter(({ error }: { error: string }) => error.includes('[masked]'))).toHaveLength(6)
  for (const form of echo(`Bearer ${token.replace('ñ', 'n')}`)) {
    expect(output).not.toContain(form.slice(0, 196))
  }
})
