import type { Mistakes } from './mistakes.ts'

/** Secrets, keys and signatures. */
export const secrets: readonly Mistakes[] = [
  {
    file: 'src/domain/secret-hash.ts',
    tests: [['test/checks/comparisons.test.ts']],
    made: {
      'secrets are compared by ===': [
        'return timingSafeEqual(digest(a), digest(b))',
        'return a === b',
      ],
    },
  },
  {
    file: 'src/payments/api-keys/api-keys.ts',
    tests: [['test/checks/comparisons.test.ts']],
    made: {
      'keys are drawn by Math.random': [
        "randomBytes(32).toString('hex')",
        "Array.from({ length: 64 }, () => Math.floor(Math.random() * 16).toString(16)).join('')",
      ],
    },
  },
  {
    file: 'src/domain/pkce.ts',
    tests: [['test/checks/comparisons.test.ts']],
    made: {
      'states and verifiers are drawn by Math.random': [
        "return randomBytes(32).toString('base64url')",
        "return Buffer.from(Array.from({ length: 32 }, () => Math.floor(Math.random() * 256))).toString('base64url')",
      ],
    },
  },
  {
    file: 'src/payments/api-keys/api-keys.ts',
    tests: [['test/payment/api-key-values.test.ts']],
    made: {
      'half of the bytes of a key': [
        'randomBytes(32).toString(',
        'Buffer.concat([randomBytes(16), Buffer.alloc(16)]).toString(',
      ],
    },
  },
  {
    file: 'src/provider/webhook-signature.ts',
    tests: [['test/provider/signature.test.ts']],
    made: {
      'an empty webhook secret counts': ["if (secret === '') continue", ''],
      'a separator inside a signed part is taken': ['if (!parts || split)', 'if (!parts)'],
      'of a repeated part of x-signature the last counts': [
        'if (at < 1 || parts.has(name))',
        'if (at < 1)',
      ],
      'the request id is not part of what is signed': [
        "const request = requestId === ''",
        "const request = requestId !== ''",
      ],
      'only the first webhook secret is tried': [
        'for (const secret of secrets) {',
        'for (const secret of secrets.slice(0, 1)) {',
      ],
    },
  },
  {
    file: 'src/domain/encryption.ts',
    tests: [['test/domain/encryption.test.ts']],
    made: {
      'an encrypted value is not bound to its field': [
        `cipher.setAAD(Buffer.from(context))
      const`,
        `cipher.setAAD(Buffer.from(context.split('/')[0] ?? ''))
      const`,
        '        decipher.setAAD(Buffer.from(context))',
        "        decipher.setAAD(Buffer.from(context.split('/')[0] ?? ''))",
      ],
      'a tag of four bytes decrypts a value': [
        `createDecipheriv('aes-256-gcm', key, bytes.subarray(0, nonceBytes), {
          authTagLength: tagBytes,
        })`,
        "createDecipheriv('aes-256-gcm', key, bytes.subarray(0, nonceBytes))",
      ],
      'the nonce is always the same': [
        'const nonce = randomBytes(nonceBytes)',
        'const nonce = Buffer.alloc(nonceBytes)',
      ],
      'a value is decrypted with the first key, whatever it names': [
        'const key = id === undefined ? undefined : byId.get(id)',
        'const key = id === undefined ? undefined : first.key',
      ],
    },
  },
]
