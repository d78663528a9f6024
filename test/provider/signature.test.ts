import { createHmac } from 'node:crypto'
import { createRequire } from 'node:module'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type SignatureInput, verifySignature } from '../../src/provider/webhook-signature.ts'

const secret = 'sandbox-webhook-secret-0001'
const requestId = '7c1f0b52-3a44-4f0e-9d2a-5b6c7d8e9f01'
const dataId = 'ORDTST01K8ZQ4M7N2P5R6S7T8V9W0X1Y'
const now = new Date(1_790_000_005_000)
const lower = '5daba6bd40e5d4e2248cac87db274e86c6a0a00939895f974e94ec186d84d892'

const genuine: SignatureInput = {
  xSignature: `ts=1790000000000,v1=${lower}`,
  xRequestId: requestId,
  dataId,
  secrets: [secret],
  now,
}

// The vectors of provider file 6.4.
test.each([
  ['lower', dataId, requestId, '1790000000000', lower],
  [
    'as_received',
    dataId,
    requestId,
    '1790000000000',
    '57d16c937886bafde2d66df35ebd5b0e7290ded16f9d8fcafb83cb7fe1dd74f6',
  ],
  [
    'lower',
    dataId,
    undefined,
    '1790000000000',
    '23e92123c6484a8eacac1722b42b1da66b773e55f77b5fc27b97da681d36d1a2',
  ],
  [
    'lower',
    undefined,
    requestId,
    '1790000000000',
    '3a71bba6e1ea97cb9d0660c1e5fc201568aa6fd18ca713d33d19f772e6c7f869',
  ],
  [
    'lower',
    undefined,
    undefined,
    '1790000000000',
    '148e433d0a3ca4de0b58d9f1636936513b1df226f2f156e21a06a34858c7f529',
  ],
  [
    'lower',
    '123456789',
    requestId,
    '1790000000',
    'ec631512d13e718a44e088f6476bfa526e8ade22350641d9c1ab3bc3b3b1bf11',
  ],
])('a genuine signature is valid: %s, id %s, request %s, ts %s', (form, id, request, ts, v1) => {
  expect(
    verifySignature({
      ...genuine,
      xSignature: `ts=${ts},v1=${v1}`,
      xRequestId: request,
      dataId: id,
    }),
  ).toEqual({ valid: true, form, tsMs: 1_790_000_000_000 })
})

test('order, spaces and unknown parts of the header do not matter', () => {
  for (const xSignature of [
    `v1=${lower},ts=1790000000000`,
    ` ts = 1790000000000 , v1 = ${lower} `,
    `ts=1790000000000,v1=${lower},v2=abc`,
  ]) {
    expect(verifySignature({ ...genuine, xSignature }).valid).toBe(true)
  }
})

test('any of several secrets is accepted, an empty one never', () => {
  expect(verifySignature({ ...genuine, secrets: ['old', secret] }).valid).toBe(true)
  expect(verifySignature({ ...genuine, secrets: [secret, 'new'] }).valid).toBe(true)
  const empty = createHmac('sha256', '').update('ts:1790000000000;').digest('hex')
  expect(
    verifySignature({
      xSignature: `ts=1790000000000,v1=${empty}`,
      xRequestId: undefined,
      dataId: undefined,
      secrets: [''],
      now,
    }),
  ).toEqual({ valid: false, reason: 'mismatch' })
})

test('a signature from the future within the tolerance is valid', () => {
  const early = new Date(1_789_999_999_000)
  expect(verifySignature({ ...genuine, now: early })).toMatchObject({ valid: true })
})

const half = lower.slice(0, 32)

test.each<[string, Partial<SignatureInput>, string]>([
  ['no header', { xSignature: undefined }, 'missing'],
  ['an empty header', { xSignature: '' }, 'missing'],
  ['a repeated header', { xSignature: [String(genuine.xSignature)] }, 'malformed'],
  [
    'a joined repeated header',
    { xSignature: `${genuine.xSignature},${genuine.xSignature}` },
    'malformed',
  ],
  ['two v1 parts', { xSignature: `ts=1790000000000,v1=${half},v1=${lower}` }, 'malformed'],
  ['a repeated request id', { xRequestId: [requestId, requestId] }, 'malformed'],
  ['a repeated id', { dataId: [dataId, dataId] }, 'malformed'],
  ['no ts', { xSignature: `v1=${lower}` }, 'malformed'],
  ['no v1', { xSignature: 'ts=1790000000000' }, 'malformed'],
  ['no names', { xSignature: lower }, 'malformed'],
  ['a short v1', { xSignature: `ts=1790000000000,v1=${half}` }, 'malformed'],
  ['a long v1', { xSignature: `ts=1790000000000,v1=${lower}00` }, 'malformed'],
  ['an upper-case v1', { xSignature: `ts=1790000000000,v1=${lower.toUpperCase()}` }, 'malformed'],
  ['a multibyte v1', { xSignature: `ts=1790000000000,v1=${'é'.repeat(64)}` }, 'malformed'],
  [
    'a v1 that is not hexadecimal',
    { xSignature: `ts=1790000000000,v1=${'g'.repeat(64)}` },
    'malformed',
  ],
  ['a ts with a sign', { xSignature: `ts=+179000000000,v1=${lower}` }, 'malformed'],
  ['a ts of 12 digits', { xSignature: `ts=179000000000,v1=${lower}` }, 'malformed'],
  ['a ts of other digits', { xSignature: `ts=${'١'.repeat(13)},v1=${lower}` }, 'malformed'],
  ['another ts', { xSignature: `ts=1790000000001,v1=${lower}` }, 'mismatch'],
  [
    'seconds where milliseconds were signed',
    { xSignature: `ts=1790000000,v1=${lower}` },
    'mismatch',
  ],
  ['another id', { dataId: `${dataId}0` }, 'mismatch'],
  ['no id', { dataId: undefined }, 'mismatch'],
  ['another request id', { xRequestId: 'x' }, 'mismatch'],
  ['no request id', { xRequestId: undefined }, 'mismatch'],
  ['another secret', { secrets: ['other'] }, 'mismatch'],
  ['no secret', { secrets: [] }, 'mismatch'],
  ['zeros', { xSignature: `ts=1790000000000,v1=${'0'.repeat(64)}` }, 'mismatch'],
])('a signature with %s is refused', (_name, change, reason) => {
  expect(verifySignature({ ...genuine, ...change })).toEqual({ valid: false, reason })
})

test('a signature is not valid for another split of the same manifest', () => {
  const moved = {
    ...genuine,
    dataId: `${dataId.toLowerCase()};request-id:${requestId}`,
    xRequestId: undefined,
  }
  expect(verifySignature(moved)).toEqual({ valid: false, reason: 'malformed' })
  const other = { ...genuine, dataId: undefined, xRequestId: `${requestId};ts:1790000000000` }
  expect(verifySignature(other)).toEqual({ valid: false, reason: 'malformed' })
})

test('T20: no random input is valid or causes an exception', { tags: ['long'] }, () => {
  const text = fc.option(fc.oneof(fc.string({ unit: 'binary' }), fc.array(fc.string())), {
    nil: undefined,
  })
  fc.assert(
    fc.property(text, text, text, (xSignature, xRequestId, data) => {
      const verification = verifySignature({ ...genuine, xSignature, xRequestId, dataId: data })
      expect(verification.valid).toBe(false)
    }),
  )
})

test('a signature is valid for 48 hours, and may be an hour from the future', () => {
  const at = 1_790_000_000_000
  const hourMs = 3_600_000
  const signed = genuine.now.getTime() - 5_000
  expect(signed).toBe(at)
  const verificationAt = (ms: number) => verifySignature({ ...genuine, now: new Date(at + ms) })
  for (const ms of [-hourMs, 0, 48 * hourMs])
    expect(verificationAt(ms)).toMatchObject({ valid: true })
  for (const ms of [-hourMs - 1, 48 * hourMs + 1]) {
    expect(verificationAt(ms)).toEqual({ valid: false, reason: 'too_old' })
  }
})

test('the validator of the official SDK accepts what this one accepts', () => {
  const sdk = createRequire(import.meta.url)('mercadopago') as {
    WebhookSignatureValidator: { validate(input: Record<string, unknown>): void }
  }
  fc.assert(
    fc.property(
      fc.stringMatching(/^[A-Za-z0-9]{1,32}$/),
      fc.uuid(),
      fc.integer({ min: 1_000_000_000, max: 9_999_999_999 }),
      (id, request, seconds) => {
        const manifest = `id:${id};request-id:${request};ts:${seconds};`
        const v1 = createHmac('sha256', secret).update(manifest).digest('hex')
        const shared = { xSignature: `ts=${seconds},v1=${v1}`, xRequestId: request, dataId: id }
        sdk.WebhookSignatureValidator.validate({ ...shared, secret })
        const signedAt = new Date(seconds * 1000)
        const input = { ...shared, secrets: [secret], now: signedAt }
        expect(verifySignature(input)).toMatchObject({
          valid: true,
          form: id === id.toLowerCase() ? 'lower' : 'as_received',
          tsMs: seconds * 1000,
        })
      },
    ),
  )
})
