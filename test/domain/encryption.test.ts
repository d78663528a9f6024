import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createEncryption, type EncryptionKey } from '../../src/domain/encryption.ts'

const key = (id: string): EncryptionKey => ({ id, key: randomBytes(32) })
const old = key('2025')
const current = key('2026')
const encryption = createEncryption([current, old])

test('any encrypted text is decrypted again in its place', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.string(), (text, context) => {
      expect(encryption.decrypt(encryption.encrypt(text, context), context)).toBe(text)
    }),
  )
})

test('an encrypted value has the name of its key and no part of its text', () => {
  const encrypted = encryption.encrypt('APP_USR-1234-secret', 'acme/access_token')
  expect(encrypted).toMatch(/^v1\.2026\.[A-Za-z0-9_-]+$/)
  const bytes = Buffer.from(encrypted.split('.')[2] ?? '', 'base64url')
  expect(bytes).toHaveLength(12 + 16 + 'APP_USR-1234-secret'.length)
  expect(bytes.includes('secret')).toBe(false)
})

test('the same text is encrypted differently each time, since every nonce is new', () => {
  const count = 2000
  const nonces = new Set(
    Array.from({ length: count }, () =>
      Buffer.from(encryption.encrypt('same', 'same').split('.')[2] ?? '', 'base64url')
        .subarray(0, 12)
        .toString('hex'),
    ),
  )
  expect(nonces.size).toBe(count)
})

test('a value is not decrypted in another place: another client or another field', () => {
  const encrypted = encryption.encrypt('token', 'acme/access_token')
  for (const context of ['acme/refresh_token', 'other/access_token', 'acme/access_token ', '']) {
    expect(() => encryption.decrypt(encrypted, context), context).toThrow()
  }
})

test('T14: no bit of nonce, tag or text can be changed', () => {
  const encrypted = encryption.encrypt('token', 'acme')
  const [version, id, data = ''] = encrypted.split('.')
  const bytes = Buffer.from(data, 'base64url')
  for (let bit = 0; bit < bytes.length * 8; bit += 1) {
    const changed = Buffer.from(bytes)
    changed[bit >> 3] = (changed[bit >> 3] as number) ^ (1 << (bit & 7))
    const forged = `${version}.${id}.${changed.toString('base64url')}`
    expect(() => encryption.decrypt(forged, 'acme'), `bit ${bit}`).toThrow()
  }
})

test('T14: a value that is cut, longer, or of another form is not decrypted', () => {
  const dataOf = (text: string) => encryption.encrypt(text, 'acme').split('.')[2] ?? ''
  // With an empty text only the tag can be cut. A shorter tag would be valid if its length were not fixed.
  for (const text of ['token', '']) {
    const bytes = Buffer.from(dataOf(text), 'base64url')
    for (let length = 0; length < bytes.length; length += 1) {
      const cut = `v1.2026.${bytes.subarray(0, length).toString('base64url')}`
      expect(() => encryption.decrypt(cut, 'acme'), `${length} bytes`).toThrow()
    }
  }
  const data = dataOf('token')
  const bytes = Buffer.from(data, 'base64url')
  const longer = Buffer.concat([bytes, Buffer.from([0])]).toString('base64url')
  const others = ['', 'v1', 'v1.2026', 'v1.2026.', `v2.2026.${data}`, `v1.2026.${longer}`, data]
  for (const other of others) expect(() => encryption.decrypt(other, 'acme'), other).toThrow()
})

test('after a rotation the new key encrypts; the old one decrypts only where it is configured', () => {
  const before = createEncryption([old])
  const encrypted = before.encrypt('token', 'acme')
  expect(encrypted).toMatch(/^v1\.2025\./)
  expect(encryption.decrypt(encrypted, 'acme')).toBe('token')
  const renewed = encryption.encrypt(encryption.decrypt(encrypted, 'acme'), 'acme')
  expect(renewed).toMatch(/^v1\.2026\./)
  expect(() => before.decrypt(renewed, 'acme')).toThrow('not configured')
  expect(() => createEncryption([current]).decrypt(encrypted, 'acme')).toThrow('not configured')
})

test('a value with the name of a wrong key is not decrypted', () => {
  const encrypted = encryption.encrypt('token', 'acme')
  expect(() => encryption.decrypt(encrypted.replace('.2026.', '.2025.'), 'acme')).toThrow()
  expect(() => createEncryption([key('2026')]).decrypt(encrypted, 'acme')).toThrow()
  for (const id of ['__proto__', 'constructor', '']) {
    expect(() => encryption.decrypt(encrypted.replace('.2026.', `.${id}.`), 'acme'), id).toThrow()
  }
})

test('encryption without a key is a configuration error', () => {
  expect(() => createEncryption([])).toThrow('at least one')
})
