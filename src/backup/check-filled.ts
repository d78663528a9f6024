import type { Trx } from '../db/database.ts'
import { createEncryption } from '../domain/encryption.ts'
import { signHeadAgainWithin } from '../payments/audit/seal-activity.ts'
import { type ChainCheck, verifyActivityChain } from '../payments/audit/verify-activity.ts'
import {
  type KeysAtHand,
  requireFittingKeys,
} from '../payments/encryption/check-encryption-keys.ts'

/**
 * Whether the configured keys open what was copied, and the result of verifying the audit log; `archiveDir` is the folder of its archive files. A log that does not
 * verify is reported by the caller: it was copied unchanged, and did not verify before either.
 *
 * @throws EncryptionKeysError for a missing key that is not declared lost: a service would refuse to start.
 */
export async function checkLoaded(
  trx: Trx,
  { archiveDir, ...atHand }: KeysAtHand & { archiveDir?: string | undefined },
): Promise<ChainCheck | undefined> {
  const { keys, lost = [] } = atHand
  await requireFittingKeys(trx, atHand)
  // Without a key nothing was ever signed, or the key is lost.
  if (keys.length === 0) return undefined
  const encryption = createEncryption(keys)
  // Otherwise a copy from before the end of the log was signed would look like one whose signature was removed.
  await signHeadAgainWithin(trx, encryption, lost)
  return await verifyActivityChain({ encryption, db: trx, archiveDir })
}
