import type { Trx } from '../db/database.ts'
import { createEncryption } from '../domain/encryption.ts'
import { findAuditKey } from '../payments/audit/audit-key.ts'
import { type ChainCheck, verifyActivityChain } from '../payments/audit/verify-activity.ts'
import {
  type KeysAtHand,
  requireFittingKeys,
} from '../payments/encryption/check-encryption-keys.ts'

/**
 * Whether the configured keys open what was copied, and the result of verifying the audit log. A log that does not verify is reported by the caller: it was copied unchanged, and did not verify before either.
 *
 * @throws EncryptionKeysError for a missing key that is not declared lost: a service would refuse to start.
 */
export async function checkLoaded(trx: Trx, atHand: KeysAtHand): Promise<ChainCheck | undefined> {
  const { keys } = atHand
  await requireFittingKeys(trx, atHand)
  // Without a key nothing was ever signed.
  const auditKey = keys.length === 0 ? undefined : await findAuditKey(trx, createEncryption(keys))
  return auditKey && (await verifyActivityChain({ auditKey, db: trx }))
}
