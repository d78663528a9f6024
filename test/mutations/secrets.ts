import type { Mistake } from './mistake.ts'

/** Secrets, keys and signatures. */
export const secrets: readonly Mistake[] = [
  {
    name: 'secrets are compared by ===',
    file: 'src/domain/secret-hash.ts',
    find: 'return timingSafeEqual(digest(a), digest(b))',
    replace: 'return a === b',
    noticedBy: { tests: [['test/checks/comparisons.test.ts']] },
  },
  {
    name: 'keys are drawn by Math.random',
    file: 'src/payments/api-keys/api-keys.ts',
    find: "randomBytes(32).toString('hex')",
    replace:
      "Array.from({ length: 64 }, () => Math.floor(Math.random() * 16).toString(16)).join('')",
    noticedBy: { tests: [['test/checks/comparisons.test.ts']] },
  },
  {
    name: 'half of the bytes of a key',
    file: 'src/payments/api-keys/api-keys.ts',
    find: 'randomBytes(32).toString(',
    replace: 'Buffer.concat([randomBytes(16), Buffer.alloc(16)]).toString(',
    noticedBy: { tests: [['test/payment/api-key-values.test.ts']] },
  },
  {
    name: 'states and verifiers are drawn by Math.random',
    file: 'src/domain/pkce.ts',
    find: "return randomBytes(32).toString('base64url')",
    replace:
      "return Buffer.from(Array.from({ length: 32 }, () => Math.floor(Math.random() * 256))).toString('base64url')",
    noticedBy: { tests: [['test/checks/comparisons.test.ts']] },
  },
  {
    name: 'an empty webhook secret counts',
    file: 'src/provider/webhook-signature.ts',
    find: "if (secret === '') continue",
    replace: '',
    noticedBy: { tests: [['test/provider/signature.test.ts']] },
  },
  {
    name: 'a separator inside a signed part is taken',
    file: 'src/provider/webhook-signature.ts',
    find: 'if (!parts || split)',
    replace: 'if (!parts)',
    noticedBy: { tests: [['test/provider/signature.test.ts']] },
  },
  {
    name: 'of a repeated part of x-signature the last counts',
    file: 'src/provider/webhook-signature.ts',
    find: 'if (at < 1 || parts.has(name))',
    replace: 'if (at < 1)',
    noticedBy: { tests: [['test/provider/signature.test.ts']] },
  },
  {
    name: 'the request id is not part of what is signed',
    file: 'src/provider/webhook-signature.ts',
    find: "const request = requestId === ''",
    replace: "const request = requestId !== ''",
    noticedBy: { tests: [['test/provider/signature.test.ts']] },
  },
  {
    name: 'only the first webhook secret is tried',
    file: 'src/provider/webhook-signature.ts',
    find: 'for (const secret of secrets) {',
    replace: 'for (const secret of secrets.slice(0, 1)) {',
    noticedBy: { tests: [['test/provider/signature.test.ts']] },
  },
  {
    name: 'an encrypted value is not bound to its field',
    file: 'src/domain/encryption.ts',
    find: `cipher.setAAD(Buffer.from(context))
      const`,
    replace: `cipher.setAAD(Buffer.from(context.split('/')[0] ?? ''))
      const`,
    more: [
      {
        file: 'src/domain/encryption.ts',
        find: '        decipher.setAAD(Buffer.from(context))',
        replace: "        decipher.setAAD(Buffer.from(context.split('/')[0] ?? ''))",
      },
    ],
    noticedBy: { tests: [['test/domain/encryption.test.ts']] },
  },
  {
    name: 'a tag of four bytes decrypts a value',
    file: 'src/domain/encryption.ts',
    find: `createDecipheriv('aes-256-gcm', key, bytes.subarray(0, nonceBytes), {
          authTagLength: tagBytes,
        })`,
    replace: "createDecipheriv('aes-256-gcm', key, bytes.subarray(0, nonceBytes))",
    noticedBy: { tests: [['test/domain/encryption.test.ts']] },
  },
  {
    name: 'the nonce is always the same',
    file: 'src/domain/encryption.ts',
    find: 'const nonce = randomBytes(nonceBytes)',
    replace: 'const nonce = Buffer.alloc(nonceBytes)',
    noticedBy: { tests: [['test/domain/encryption.test.ts']] },
  },
  {
    name: 'a value is decrypted with the first key, whatever it names',
    file: 'src/domain/encryption.ts',
    find: 'const key = id === undefined ? undefined : byId.get(id)',
    replace: 'const key = id === undefined ? undefined : first.key',
    noticedBy: { tests: [['test/domain/encryption.test.ts']] },
  },
]
