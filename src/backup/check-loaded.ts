import type { Trx } from '../db/database.ts'
import { createSealer, type EncryptionKey } from '../domain/sealed.ts'
import { takeOverHeadWithin } from '../payments/audit/seal-activity.ts'
import { type ChainCheck, verifyActivityChain } from '../payments/audit/verify-activity.ts'
import { checkEncryptionKeys, EncryptionKeysError } from '../payments/encryption/encryption-keys.ts'

export type KeysAtHand = {
  keys: readonly EncryptionKey[]
  /** Where they come from, in words for the operator. */
  source: string
  /** Ids of keys that nobody has any more. */
  lost: readonly string[]
}

/**
 * Whether the keys at hand open what was copied, and what the audit log says of itself. Throws EncryptionKeysError for a key
 * that is missing and not given up: a service would refuse to start there. A log that does not verify is the caller's to
 * tell: it was copied as it is, and did not verify before either.
 */
export async function checkLoaded(
  trx: Trx,
  { keys, source, lost }: KeysAtHand,
): Promise<ChainCheck | undefined> {
  const troubles = await checkEncryptionKeys(trx, keys)
  const left = troubles.filter(({ id }) => !lost.includes(id))
  if (left.length > 0) throw new EncryptionKeysError(left, source)
  // Without a key nothing was ever signed, or the key is lost.
  if (keys.length === 0) return undefined
  const sealer = createSealer(keys)
  // A copy from before the end of the log was signed would else look like one whose signature was taken away.
  await takeOverHeadWithin(trx, sealer, lost)
  return await verifyActivityChain({ sealer, db: trx })
}
