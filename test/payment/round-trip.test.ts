import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openOwnShop, ordersAtProvider } from '../support/money.ts'
import { rounds } from '../support/rounds.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, location, type Till } from '../support/till.ts'

// T26: a text is refused, or returned exactly as it was sent. No text causes a 5xx.

let service: TestService
let till: Till
beforeAll(async () => {
  service = await startTestService()
  till = await openOwnShop(service, 'acme')
})
afterAll(() => service.stop())

/** Texts that often break databases, pages, printers and terminals, and texts that are easily normalised to others. */
const pieces = [
  '\0',
  '\u0001',
  '\t',
  '\n',
  '\r\n',
  '\u001b[31m',
  '\u007f',
  '\u0085',
  '\ud800',
  '\udc00',
  '\udc00\ud800',
  '\ufeff',
  '\ufffd',
  '\uffff',
  '\u{10ffff}',
  '\u200b',
  '\u202e',
  '\u2066',
  '\u0301',
  'e\u0301',
  '\u00e9',
  '\u212b',
  'A\u030a',
  'ﷺ',
  '👩‍👩‍👧',
  'ﬁ',
  'İ',
  'ß',
  "'",
  '"',
  '\\',
  '\\u0000',
  '%00',
  '$1',
  '{}',
  '<b>',
  '&lt;',
  '--',
  ';',
  '_',
  '%',
  '|',
  'null',
  '__proto__',
  ' ',
  '\u00a0',
  '1e5',
]
const isAccepted = (text: string) =>
  text.isWellFormed() && !/\p{Cc}/u.test(text) && !text.startsWith('\ufeff')
const isName = (text: string) => isAccepted(text) && text.trim() === text

const odd = (max: number) =>
  fc
    .array(fc.oneof(fc.constantFrom(...pieces), fc.string({ unit: 'binary', maxLength: 3 })), {
      minLength: 1,
      maxLength: 8,
    })
    .map((parts) => parts.join('').slice(0, max))
    .filter((text) => text !== '')
/** Mostly texts that must be accepted, so that requests with several of them are accepted too. */
const hostile = (max: number) =>
  fc.oneof(
    { weight: 7, arbitrary: odd(max).filter(isAccepted) },
    { weight: 1, arbitrary: odd(max) },
  )
/** The provider accepts no blank name. */
const name = (max: number) => hostile(max).filter((text) => text.trim() !== '')

/** JSON as an ERP writes it, with each character beyond ASCII as itself or escaped. */
const asJson = (body: object, isEscaped: boolean) => {
  const json = JSON.stringify(body)
  if (!isEscaped) return json
  return json.replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

function post(url: string, body: object, isEscaped: boolean, token: string) {
  return service.app.inject({
    method: 'POST',
    url,
    headers: { 'x-api-token': token, 'content-type': 'application/json' },
    payload: asJson(body, isEscaped),
  })
}

/** A 422 that names wrong fields, and only wrong ones. */
function expectRefused(answer: { statusCode: number; json(): never }, wrong: readonly string[]) {
  const { code, details } = answer.json() as { code: string; details: { path: string }[] }
  expect([answer.statusCode, code]).toEqual([422, 'VALIDATION_ERROR'])
  expect(details.length).toBeGreaterThan(0)
  for (const { path } of details) expect(wrong).toContain(path)
}

const wrongOf = (fields: Record<string, string>, isGood = isAccepted) =>
  Object.keys(fields).filter((name) => !isGood(fields[name] ?? ''))

test('T26: the texts of an order come back exactly or are refused', {
  tags: ['long'],
}, async () => {
  const texts = fc.record({
    external_reference: hostile(64),
    description: hostile(150),
    ticket_number: hostile(64),
  })
  await fc.assert(
    fc.asyncProperty(texts, fc.boolean(), async (fields, isEscaped) => {
      const wrong = wrongOf(fields)
      const before = ordersAtProvider(service, till).length
      const body = { caja_id: 'CAJA-1', amount: '10,00', ...fields }
      const answer = await post('/orders', body, isEscaped, till.key)
      if (wrong.length > 0) {
        expectRefused(answer, wrong)
        expect(ordersAtProvider(service, till)).toHaveLength(before)
        return
      }
      expect(answer.statusCode, answer.body).toBe(201)
      const { order_id } = answer.json()
      const read = await call(service, { url: `/orders/${order_id}`, token: till.key })
      expect(read.json()).toMatchObject(fields)
      const query = new URLSearchParams({ external_reference: fields.external_reference })
      const found = await call(service, { url: `/orders?${query}`, token: till.key })
      expect(JSON.stringify(found.json().orders)).toContain(order_id)
      await call(service, { url: '/orders/cancel', token: till.key, body: { order_id } })
    }),
    { numRuns: rounds(12) },
  )
})

test('T26: the texts of a store and its box come back exactly or are refused, ids in a path too', {
  tags: ['long'],
}, async () => {
  let number = 0
  const texts = fc.record({
    name: name(80),
    external_id: hostile(40),
    'pos.0.name': name(80),
    'pos.0.external_id': hostile(40),
    'location.reference': name(100),
    'location.street_name': name(100),
  })
  await fc.assert(
    fc.asyncProperty(texts, fc.boolean(), async (drawn, isEscaped) => {
      number += 1
      // The number makes all ids different.
      const fields = {
        ...drawn,
        external_id: `${drawn.external_id}${number}`,
        'pos.0.external_id': `${drawn['pos.0.external_id']}${number}`,
      }
      const pos = { name: fields['pos.0.name'], external_id: fields['pos.0.external_id'] }
      const body = {
        name: fields.name,
        external_id: fields.external_id,
        location: {
          ...location,
          street_name: fields['location.street_name'],
          reference: fields['location.reference'],
        },
        pos: [pos],
      }
      const answer = await post('/stores', body, isEscaped, till.key)
      const wrong = wrongOf(fields)
      if (wrong.length > 0) return expectRefused(answer, wrong)
      expect(answer.statusCode, answer.body).toBe(201)
      const url = `/stores/${encodeURIComponent(fields.external_id)}`
      const read = await call(service, { url, token: till.key })
      expect(read.statusCode, url).toBe(200)
      const text = JSON.stringify(read.json())
      for (const sent of [fields.name, fields.external_id, pos.name, pos.external_id]) {
        expect(text).toContain(JSON.stringify(sent))
      }
      const removed = await call(service, { method: 'DELETE', url, token: till.key })
      expect(removed.json().deleted).toEqual({ store: 1, pos: 1 })
    }),
    { numRuns: rounds(20) },
  )
})

test('T26: client names, descriptions of a key and idempotency keys come back exactly or are refused', {
  tags: ['long'],
}, async () => {
  await fc.assert(
    fc.asyncProperty(hostile(100), hostile(150), async (client, description) => {
      const invited = await asAdmin(service, { url: '/admin/invitations', body: { client } })
      if (isName(client)) {
        expect(new URL(invited.json().url).searchParams.get('client')).toBe(client)
      } else expectRefused(invited, ['client'])

      const body = { client: 'acme', description }
      const made = await asAdmin(service, { url: '/api-keys', body })
      if (isAccepted(description)) {
        const { keys } = (await asAdmin(service, { url: '/api-keys' })).json()
        expect(JSON.stringify(keys)).toContain(JSON.stringify(description))
      } else expectRefused(made, ['description'])
    }),
    { numRuns: rounds(20) },
  )
  for (const key of ['a b', 'ñ', '\x7f', 'a\tb', 'x'.repeat(129), '']) {
    const answer = await call(service, {
      url: '/orders',
      token: till.key,
      headers: { 'idempotency-key': Buffer.from(key).toString('latin1') },
      body: { caja_id: 'CAJA-1', amount: '10,00', external_reference: 'K-1' },
    })
    expect([answer.statusCode, key]).toEqual([422, key])
  }
  expect(JSON.stringify(ordersAtProvider(service, till))).not.toContain('K-1')
})
