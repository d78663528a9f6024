import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createSealer, type EncryptionKey } from '../../src/domain/sealed.ts'

const key = (id: string): EncryptionKey => ({ id, key: randomBytes(32) })
const old = key('2025')
const current = key('2026')
const sealer = createSealer([current, old])

test('what was sealed opens again, whatever the text and its place', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.string(), (text, context) => {
      expect(sealer.open(sealer.seal(text, context), context)).toBe(text)
    }),
  )
})

test('a sealed value names its key and shows nothing of its text', () => {
  const sealed = sealer.seal('APP_USR-1234-secret', 'acme/access_token')
  expect(sealed).toMatch(/^v1\.2026\.[A-Za-z0-9_-]+$/)
  const bytes = Buffer.from(sealed.split('.')[2] ?? '', 'base64url')
  expect(bytes).toHaveLength(12 + 16 + 'APP_USR-1234-secret'.length)
  expect(bytes.includes('secret')).toBe(false)
})

test('the same text is never sealed twice in the same way: every nonce is new', () => {
  const count = 2000
  const nonces = new Set(
    Array.from({ length: count }, () =>
      Buffer.from(sealer.seal('same', 'same').split('.')[2] ?? '', 'base64url')
        .subarray(0, 12)
        .toString('hex'),
    ),
  )
  expect(nonces.size).toBe(count)
})

test('a value does not open in another place: another client, another field', () => {
  const sealed = sealer.seal('token', 'acme/access_token')
  for (const context of ['acme/refresh_token', 'other/access_token', 'acme/access_token ', '']) {
    expect(() => sealer.open(sealed, context), context).toThrow()
  }
})

test('T14: no bit of nonce, tag or text can be changed', () => {
  const sealed = sealer.seal('token', 'acme')
  const [version, id, data = ''] = sealed.split('.')
  const bytes = Buffer.from(data, 'base64url')
  for (let bit = 0; bit < bytes.length * 8; bit += 1) {
    const changed = Buffer.from(bytes)
    changed[bit >> 3] = (changed[bit >> 3] as number) ^ (1 << (bit & 7))
    const forged = `${version}.${id}.${changed.toString('base64url')}`
    expect(() => sealer.open(forged, 'acme'), `bit ${bit}`).toThrow()
  }
})

test('T14: a value that is cut, longer, or of another form does not open', () => {
  const dataOf = (text: string) => sealer.seal(text, 'acme').split('.')[2] ?? ''
  // Of an empty text only the tag is left to cut: a part of it would do if its length were not fixed.
  for (const text of ['token', '']) {
    const bytes = Buffer.from(dataOf(text), 'base64url')
    for (let length = 0; length < bytes.length; length += 1) {
      const cut = `v1.2026.${bytes.subarray(0, length).toString('base64url')}`
      expect(() => sealer.open(cut, 'acme'), `${length} bytes`).toThrow()
    }
  }
  const data = dataOf('token')
  const bytes = Buffer.from(data, 'base64url')
  const longer = Buffer.concat([bytes, Buffer.from([0])]).toString('base64url')
  const others = ['', 'v1', 'v1.2026', 'v1.2026.', `v2.2026.${data}`, `v1.2026.${longer}`, data]
  for (const other of others) expect(() => sealer.open(other, 'acme'), other).toThrow()
})

test('after a rotation the new key seals, the old one still opens, and only where it is configured', () => {
  const before = createSealer([old])
  const sealed = before.seal('token', 'acme')
  expect(sealed).toMatch(/^v1\.2025\./)
  expect(sealer.open(sealed, 'acme')).toBe('token')
  const renewed = sealer.seal(sealer.open(sealed, 'acme'), 'acme')
  expect(renewed).toMatch(/^v1\.2026\./)
  expect(() => before.open(renewed, 'acme')).toThrow('not configured')
  expect(() => createSealer([current]).open(sealed, 'acme')).toThrow('not configured')
})

test('a value under the name of a key that is not its own does not open', () => {
  const sealed = sealer.seal('token', 'acme')
  expect(() => sealer.open(sealed.replace('.2026.', '.2025.'), 'acme')).toThrow()
  expect(() => createSealer([key('2026')]).open(sealed, 'acme')).toThrow()
  for (const id of ['__proto__', 'constructor', '']) {
    expect(() => sealer.open(sealed.replace('.2026.', `.${id}.`), 'acme'), id).toThrow()
  }
})

test('the signing key is derived: of one encryption key always the same, of two never, and it is neither', () => {
  const { id, key: signing } = sealer.signingKey()
  expect(id).toBe('2026')
  expect(signing).toHaveLength(32)
  expect(createSealer([old, current]).signingKeyById('2026')).toEqual(signing)
  expect(sealer.signingKeyById('2025')).not.toEqual(signing)
  expect(signing.equals(current.key)).toBe(false)
  expect(sealer.signingKeyById('2024')).toBeUndefined()
})

test('a sealer without a key is a mistake in the configuration', () => {
  expect(() => createSealer([])).toThrow('at least one')
})
