import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import type { Database, Db } from '../../db/database.ts'
import { auditKeyContext, type Encryption } from '../../domain/encryption.ts'
import { isNewLog, lockHead, writeHead } from '../../repositories/audit/activity-chain.ts'
import {
  auditKeySetting,
  replaceEncrypted,
} from '../../repositories/encryption/encrypted-values.ts'
import { findSetting, rememberSetting } from '../../repositories/settings.ts'
import { signHead } from './signatures.ts'

/**
 * The key of the audit log. It is made at the first start, and stored encrypted, so that a rotation of ENCRYPTION_KEYS keeps all
 * entries verifiable. The head of a new log is signed with it; any other head is left for the check to report.
 *
 * @throws DecryptionError when its encryption key is not configured
 */
export async function openAuditKey(
  { transaction }: Pick<Database, 'transaction'>,
  encryption: Encryption,
  now: Date,
): Promise<KeyObject> {
  return transaction(async (trx) => {
    const made = encryptedAuditKey(encryption)
    const stored = await rememberSetting(trx, auditKeySetting, made, now)
    const key = decryptAuditKey(encryption, stored)
    const head = await lockHead(trx)
    if (head?.mac === null && (await isNewLog(trx))) await writeHead(trx, signHead(key, head))
    return key
  })
}

/**
 * The key of the audit log; undefined when the database has none yet.
 *
 * @throws DecryptionError when its encryption key is not configured
 */
export async function findAuditKey(db: Db, encryption: Encryption): Promise<KeyObject | undefined> {
  const stored = await findSetting(db, auditKeySetting)
  return stored === undefined ? undefined : decryptAuditKey(encryption, stored)
}

/** A new random key, as it is stored. */
function encryptedAuditKey(encryption: Encryption): string {
  return encryption.encrypt(randomBytes(32).toString('base64'), auditKeyContext)
}

/** @throws DecryptionError */
function decryptAuditKey(encryption: Encryption, stored: string): KeyObject {
  return createSecretKey(encryption.decrypt(stored, auditKeyContext), 'base64')
}

/**
 * Makes another key in place of a stored one that cannot be decrypted any more. The contents of entries that are sealed so far cannot
 * be checked from then on; their chain can. False when the stored key is another one.
 */
export async function replaceAuditKey(
  { transaction }: Pick<Database, 'transaction'>,
  encryption: Encryption,
  lost: string,
): Promise<boolean> {
  return transaction(async (trx) => {
    const head = await lockHead(trx)
    const made = encryptedAuditKey(encryption)
    const isReplaced = await replaceEncrypted(
      trx,
      { table: 'settings', column: 'value', primaryKey: 'name' },
      { row: auditKeySetting, encrypted: lost },
      made,
    )
    if (isReplaced && head) {
      const key = decryptAuditKey(encryption, made)
      await writeHead(trx, signHead(key, { ...head, lost_seq: head.seq }))
    }
    return isReplaced
  })
}
