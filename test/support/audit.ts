import { type KeyObject, randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import type { Database, Trx } from '../../src/db/database.ts'
import { createEncryption, type Encryption } from '../../src/domain/encryption.ts'
import { recordSuccess } from '../../src/payments/audit/activity.ts'
import { openAuditKey } from '../../src/payments/audit/audit-key.ts'
import {
  type ChainCheck,
  type VerifyOptions,
  verifyActivityChain,
} from '../../src/payments/audit/verify-activity.ts'
import { serviceActor } from '../../src/payments/request-context.ts'
import { openTestDatabase } from './database.ts'

/** An audit log without a service. */
export type AuditLog = {
  database: Database
  encryption: Encryption
  auditKey: KeyObject
  /** Commits an entry with this text, not sealed yet. */
  write(text: string): Promise<void>
  verify(options?: VerifyOptions): Promise<ChainCheck>
  /** The result of the check while a change that bypasses the triggers is present. The change is then undone. */
  checkWith(change: (trx: Trx) => Promise<unknown>): Promise<ChainCheck>
}

class Undo extends Error {}

export async function openAuditLog(database?: Database): Promise<AuditLog> {
  const opened = database ?? (await openTestDatabase())
  const encryption = createEncryption([{ id: 'k1', key: randomBytes(32) }])
  const auditKey = await openAuditKey(opened, encryption, new Date())
  return {
    database: opened,
    encryption,
    auditKey,
    write: (text) => opened.transaction((trx) => writeEntry(auditKey, trx, text)),
    verify: (options) => verifyActivityChain({ auditKey, db: opened.db }, options),
    async checkWith(change) {
      let check: ChainCheck | undefined
      const undone = opened.transaction(async (trx) => {
        await withoutTriggers(trx)
        await change(trx)
        check = await verifyActivityChain({ auditKey, db: trx }, { batch: 5 })
        throw new Undo()
      })
      await undone.catch((error) => {
        if (!(error instanceof Undo)) throw error
      })
      if (!check) throw new Error('the change was not checked')
      return check
    },
  }
}

/** Until the transaction ends. */
export async function withoutTriggers(trx: Trx): Promise<void> {
  await sql`set local session_replication_role = replica`.execute(trx)
}

export function writeEntry(
  auditKey: KeyObject,
  trx: Trx,
  text: string,
  now = new Date(),
): Promise<void> {
  return recordSuccess({ auditKey, now: () => now, database: { announce: () => {} } }, trx, {
    client: 'acme',
    actor: { ...serviceActor(now), ipAddress: '192.0.2.7' },
    action: 'store.created',
    resourceId: text,
    metadata: { text },
  })
}
