import type { Trx } from '../db/database.ts'
import { createSealer, type EncryptionKey } from '../domain/sealed.ts'
import { signHeadAgainWithin } from '../payments/audit/seal-activity.ts'
import { type ChainCheck, verifyActivityChain } from '../payments/audit/verify-activity.ts'
import { checkEncryptionKeys, EncryptionKeysError } from '../payments/encryption/encryption-keys.ts'

export type KeysAtHand = {
  keys: readonly EncryptionKey[]
  /** The origin of the keys, as text for the operator. */
  source: string
  /** Ids of keys that no longer exist anywhere. */
  lost: readonly string[]
  /** The folder of the audit log's archive files; undefined where none is set. */
  archiveDir?: string | undefined
}

/**
 * Whether the configured keys open what was copied, and the result of verifying the audit log. A log that does not
 * verify is reported by the caller: it was copied unchanged, and did not verify before either.
 *
 * @throws EncryptionKeysError for a missing key that is not declared lost: a service would refuse to start.
 */
export async function checkLoaded(
  trx: Trx,
  { keys, source, lost, archiveDir }: KeysAtHand,
): Promise<ChainCheck | undefined> {
  const troubles = await checkEncryptionKeys(trx, keys)
  const left = troubles.filter(({ id }) => !lost.includes(id))
  if (left.length > 0) throw new EncryptionKeysError(left, source)
  // Without a key nothing was ever signed, or the key is lost.
  if (keys.length === 0) return undefined
  const sealer = createSealer(keys)
  // Otherwise a copy from before the end of the log was signed would look like one whose signature was removed.
  await signHeadAgainWithin(trx, sealer, lost)
  return await verifyActivityChain({ sealer, db: trx, archiveDir })
}
