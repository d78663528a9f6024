import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hkdfSync,
  randomBytes,
} from 'node:crypto'

/** A 32-byte key with the short name that sealed values carry. */
export type EncryptionKey = { id: string; key: Buffer }

/** The value was changed, moved, or sealed with a key that is not configured, or is another one by the same name. */
export class SealedError extends Error {
  /** The key that the value names; undefined when it is no sealed value at all. */
  readonly keyId: string | undefined

  constructor(message: string, keyId: string | undefined, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'SealedError'
    this.keyId = keyId
  }
}

/**
 * Encrypts short secrets for the database. `context` (client and field) is authenticated, so a value moved to another
 * row or column does not open.
 */
export type Sealer = {
  seal(plaintext: string, context: string): string
  /** Throws SealedError. */
  open(sealed: string, context: string): string
  /** The key that signs new audit entries, derived so that it never encrypts anything. */
  signingKey(): { id: string; key: Buffer }
  /** The ids of all configured keys. */
  keyIds(): string[]
  /** The signing key of an earlier encryption key; undefined when that key is no longer configured. */
  signingKeyById(id: string): Buffer | undefined
}

const nonceBytes = 12
const tagBytes = 16

/** The first key encrypts; the others only open what they sealed before. */
export function createSealer(keys: readonly EncryptionKey[]): Sealer {
  const first = keys[0]
  if (!first) throw new Error('at least one encryption key is needed')
  // Made once: from bytes each call would make one anew.
  const byId = new Map(keys.map((entry) => [entry.id, createSecretKey(entry.key)]))
  const encrypting = createSecretKey(first.key)
  const signing = new Map(
    keys.map((entry) => [
      entry.id,
      Buffer.from(hkdfSync('sha256', entry.key, '', 'tillbridge activity log', 32)),
    ]),
  )

  return {
    seal(plaintext, context) {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv('aes-256-gcm', encrypting, nonce, { authTagLength: tagBytes })
      cipher.setAAD(Buffer.from(context))
      const body = Buffer.concat([cipher.update(plaintext, 'utf8'), cipher.final()])
      return `v1.${first.id}.${Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64url')}`
    },
    open(sealed, context) {
      const [version, id, data] = sealed.split('.')
      const key = id === undefined ? undefined : byId.get(id)
      if (version !== 'v1' || data === undefined || !key) {
        throw new SealedError('sealed with a key that is not configured', id)
      }
      const bytes = Buffer.from(data, 'base64url')
      try {
        // Without authTagLength Node would accept a tag of four bytes.
        const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, nonceBytes), {
          authTagLength: tagBytes,
        })
        decipher.setAAD(Buffer.from(context))
        decipher.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
        return Buffer.concat([
          decipher.update(bytes.subarray(nonceBytes + tagBytes)),
          decipher.final(),
        ]).toString('utf8')
      } catch (cause) {
        throw new SealedError('changed, moved, or sealed with another key of this name', id, {
          cause,
        })
      }
    },
    signingKey() {
      return { id: first.id, key: signing.get(first.id) as Buffer }
    },
    keyIds() {
      return [...byId.keys()]
    },
    signingKeyById(id) {
      return signing.get(id)
    },
  }
}
