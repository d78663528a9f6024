import type { Db } from '../../db/database.ts'
import { SealedError, type Sealer } from '../../domain/sealed.ts'
import { readKeptSigningKeys } from '../../repositories/encryption/sealed-values.ts'

/**
 * The signing keys of replaced encryption keys, by id: with them older signatures stay verifiable. One that cannot be decrypted
 * is left out.
 */
export async function openKeptSigningKeys(db: Db, sealer: Sealer): Promise<Map<string, Buffer>> {
  const opened = new Map<string, Buffer>()
  for (const [id, sealed] of await readKeptSigningKeys(db)) {
    try {
      opened.set(id, Buffer.from(sealer.open(sealed, signingKeyContext(id)), 'base64'))
    } catch (error) {
      if (!(error instanceof SealedError)) throw error
    }
  }
  return opened
}

/** A signing key in its stored form. */
export function sealSigningKey(sealer: Sealer, id: string, key: Buffer): string {
  return sealer.seal(key.toString('base64'), signingKeyContext(id))
}

/** The context that a stored signing key is bound to. */
export function signingKeyContext(id: string): string {
  return `signing_key:${id}`
}
