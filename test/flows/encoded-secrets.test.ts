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
const base64 = bytes.toString('base64')
const inSmall = (text: string) => text.replace(/%../g, (found) => found.toLowerCase())
const inForm = new URLSearchParams({ a: token }).toString().slice(2)

const spellings: [string, string][] = [
  ['as it is', token],
  ['JSON', JSON.stringify(token).slice(1, -1)],
  ['JSON with escaped slashes', JSON.stringify(token).slice(1, -1).replaceAll('/', '\\/')],
  ['base64', base64],
  ['base64 without padding', base64.replaceAll('=', '')],
  ['base64url', bytes.toString('base64url')],
  ['base64 in JSON with escaped slashes', base64.replaceAll('/', '\\/')],
  ['base64 of the whole header', Buffer.from(`Bearer ${token}`).toString('base64')],
  ['base64 of a login', Buffer.from(`shop:${token}`).toString('base64')],
  ['percent-encoded', encodeURIComponent(token)],
  ['percent-encoded in small letters', inSmall(encodeURIComponent(token))],
  ['percent-encoded as a form', inForm],
  ['percent-encoded as a form, in small letters', inSmall(inForm)],
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

test('the password of a Basic header is masked without its user, plain and in base64', () => {
  const header = `Basic ${Buffer.from(`shop:${token}`).toString('base64')}`
  const secrets = [header, header.slice('Basic '.length)]
  for (const text of [token, `shop:${token}`, Buffer.from(token).toString('base64')]) {
    const shown = maskSecrets(`before ${text} after`, secrets, '[masked]')
    expect(shown).not.toContain(text.slice(8, 20))
  }
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

test('an echo of the header in base64 is in no log line and no answer', async () => {
  const sent = (authorization: unknown, form: 'base64' | 'base64url') =>
    Buffer.from(String(authorization)).toString(form)
  target.answer(422, { 'content-type': 'application/json' }, ({ headers }) =>
    JSON.stringify({
      a: sent(headers.authorization, 'base64'),
      b: sent(String(headers.authorization).slice(7), 'base64url'),
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
  for (const form of ['base64', 'base64url'] as const) {
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
      Buffer.from(whole.slice(7)).toString('base64url'),
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
