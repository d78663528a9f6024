import type { Db } from '../../db/database.ts'
import { DecryptionError, type Encryption } from '../../domain/encryption.ts'
import { readKeptSigningKeys } from '../../repositories/encryption/encrypted-values.ts'

/**
 * The signing keys of replaced encryption keys, by id: with them older signatures stay verifiable. One that cannot be decrypted
 * is left out.
 */
export async function openKeptSigningKeys(
  db: Db,
  encryption: Encryption,
): Promise<Map<string, Buffer>> {
  const opened = new Map<string, Buffer>()
  for (const [id, encrypted] of await readKeptSigningKeys(db)) {
    try {
      opened.set(id, Buffer.from(encryption.decrypt(encrypted, signingKeyContext(id)), 'base64'))
    } catch (error) {
      if (!(error instanceof DecryptionError)) throw error
    }
  }
  return opened
}

/** A signing key in its stored form. */
export function encryptSigningKey(encryption: Encryption, id: string, key: Buffer): string {
  return encryption.encrypt(key.toString('base64'), signingKeyContext(id))
}

/** The context that a stored signing key is bound to. */
export function signingKeyContext(id: string): string {
  return `signing_key:${id}`
}
