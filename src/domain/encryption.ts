import { createCipheriv, createDecipheriv, createSecretKey, randomBytes } from 'node:crypto'

/** A 32-byte key with the short name that is written into encrypted values. */
export type EncryptionKey = { id: string; key: Buffer }

/** The value was changed, moved, or encrypted with a key that is not configured or has another value by now. */
export class DecryptionError extends Error {
  /** The id of the key in the value; undefined when it is not an encrypted value. */
  readonly keyId: string | undefined

  constructor(message: string, keyId: string | undefined, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'DecryptionError'
    this.keyId = keyId
  }
}

/**
 * Encrypts short secrets for the database. `context` (client and field) is authenticated, so a value that was moved to
 * another row or column cannot be opened.
 */
export type Encryption = {
  encrypt(plaintext: string, context: string): string
  /** @throws DecryptionError. */
  decrypt(encrypted: string, context: string): string
}

const nonceBytes = 12
const tagBytes = 16

/** Encrypts with the first key; the others only decrypt. */
export function createEncryption(keys: readonly EncryptionKey[]): Encryption {
  const first = keys[0]
  if (!first) throw new Error('at least one encryption key is needed')
  // Made once: each call with bytes would make one, which takes several times as long as a short signature.
  const byId = new Map(keys.map((entry) => [entry.id, createSecretKey(entry.key)]))
  const encrypting = createSecretKey(first.key)

  return {
    encrypt(plaintext, context) {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv('aes-256-gcm', encrypting, nonce, { authTagLength: tagBytes })
      cipher.setAAD(Buffer.from(context))
      const body = Buffer.concat([cipher.update(plaintext, 'utf8'), cipher.final()])
      return `v1.${first.id}.${Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64url')}`
    },
    decrypt(encrypted, context) {
      const [version, id, data] = encrypted.split('.')
      const key = id === undefined ? undefined : byId.get(id)
      if (version !== 'v1' || data === undefined || !key) {
        throw new DecryptionError('encrypted with a key that is not configured', id)
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
        throw new DecryptionError(
          'changed, moved, or encrypted with another key of this name',
          id,
          {
            cause,
          },
        )
      }
    },
  }
}

/** The context of a client's token, or of the verifier of its login. */
export function connectionContext(
  client: string,
  field: 'access_token' | 'refresh_token' | 'code_verifier',
): string {
  return `${field}:${client}`
}

/** The context of the secret of a person's codes. */
export function totpContext(nameKey: string): string {
  return `person_totp:${nameKey}`
}

/** The context of the tokens of a flow's grant. */
export function grantContext(id: string): string {
  return `oauth_grant:${id}`
}

/** The context of the secrets of an endpoint that events are sent to. */
export function endpointContext(id: string): string {
  return `event_endpoint:${id}`
}

/** The context of the key of the audit log. */
export const auditKeyContext = 'audit_key'
