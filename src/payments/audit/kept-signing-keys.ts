import { createSecretKey, type KeyObject } from 'node:crypto'
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
): Promise<Map<string, KeyObject>> {
  const opened = new Map<string, KeyObject>()
  for (const [id, encrypted] of await readKeptSigningKeys(db)) {
    try {
      opened.set(id, decryptSigningKey(encryption, id, encrypted))
    } catch (error) {
      if (!(error instanceof DecryptionError)) throw error
    }
  }
  return opened
}

/** A signing key in its stored form. */
export function encryptSigningKey(encryption: Encryption, id: string, key: KeyObject): string {
  return encryption.encrypt(key.export().toString('base64'), signingKeyContext(id))
}

/** @throws DecryptionError. */
export function decryptSigningKey(
  encryption: Encryption,
  id: string,
  encrypted: string,
): KeyObject {
  return createSecretKey(encryption.decrypt(encrypted, signingKeyContext(id)), 'base64')
}

/** The context that a stored signing key is bound to. */
export function signingKeyContext(id: string): string {
  return `signing_key:${id}`
}
