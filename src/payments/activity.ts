import { createHmac, randomUUID } from 'node:crypto'
import type { Db, Trx } from '../db/database.ts'
import { canonicalJson } from '../domain/canonical-json.ts'
import type { Sealer } from '../domain/sealed.ts'
import { AppError } from '../errors.ts'
import {
  type ActivityRow,
  appendActivity,
  lockActivityHead,
  readActivityChain,
  readActivityHead,
} from '../repositories/activity.ts'
import type { Actor, PaymentDeps } from './deps.ts'
import { openKeptSigningKeys } from './kept-signing-keys.ts'

export type ActivityEntry = {
  client: string | null
  actor: Actor
  action: string
  resourceType: string
  resourceId: string | null
  metadata?: Record<string, unknown>
}

/** Appends a success to the audit log, in the transaction of the change that it reports. */
export async function recordSuccess(
  deps: Pick<PaymentDeps, 'sealer' | 'now'>,
  trx: Trx,
  entry: ActivityEntry,
): Promise<void> {
  await append(deps, trx, { ...entry, status: 'success', errorMessage: null })
}

/** Appends a failure that is part of a change, in its transaction. */
export async function recordFailure(
  deps: Pick<PaymentDeps, 'sealer' | 'now'>,
  trx: Trx,
  entry: ActivityEntry,
  errorMessage: string,
): Promise<void> {
  await append(deps, trx, { ...entry, status: 'failed', errorMessage })
}

/**
 * Runs a write and reports its failure in the audit log. The failure itself always travels on: a log that cannot be
 * written must not hide it.
 */
export async function auditFailure<T>(
  deps: PaymentDeps,
  entry: ActivityEntry,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const code = error instanceof AppError ? error.code : 'INTERNAL_ERROR'
    // A refusal of the request's own form is no write that failed; one that the provider caused is.
    const isBadForm = code === 'VALIDATION_ERROR' && !(error as AppError).cause
    if (!isBadForm && code !== 'SERVICE_UNAVAILABLE') {
      const errorMessage = error instanceof AppError ? `${code}: ${error.message}` : code
      await deps.database
        .transaction((trx) => append(deps, trx, { ...entry, status: 'failed', errorMessage }))
        .catch((cause) => deps.log.error({ err: cause }, 'a failure could not be audited'))
    }
    throw error
  }
}

async function append(
  deps: Pick<PaymentDeps, 'sealer' | 'now'>,
  trx: Trx,
  entry: ActivityEntry & { status: 'success' | 'failed'; errorMessage: string | null },
): Promise<void> {
  const head = await lockActivityHead(trx)
  const createdAt = deps.now()
  const signing = deps.sealer.signingKey()
  const { keyId, sessionId } = entry.actor
  const metadata = JSON.stringify({
    ...entry.metadata,
    ...(keyId !== undefined && { key_id: keyId }),
    ...(sessionId !== undefined && { session_id: sessionId }),
  })
  const row = {
    seq: head.seq + 1,
    id: randomUUID(),
    client_name: entry.client,
    ip_address: entry.actor.ipAddress,
    action: entry.action,
    resource_type: entry.resourceType,
    resource_id: entry.resourceId,
    status: entry.status,
    error_message: entry.errorMessage,
    duration_ms: Math.max(0, createdAt.getTime() - entry.actor.startedAt.getTime()),
    created_at: createdAt,
    key_id: signing.id,
    previous_hash: head.hash,
  }
  const hash = hashRow(signing.key, { ...row, metadata: JSON.parse(metadata) })
  await appendActivity(trx, { ...row, metadata, hash })
}

/** Whether the entry was made with this signing key and not changed since. */
export function isSignedWith(key: Buffer, { hash, ...row }: ActivityRow): boolean {
  return hashRow(key, row) === hash
}

function hashRow(key: Buffer, row: Omit<ActivityRow, 'hash'>): string {
  const { created_at, ...fields } = row
  return createHmac('sha256', key)
    .update(canonicalJson({ ...fields, created_at: created_at.toISOString() }))
    .digest('hex')
}

export type ChainCheck = {
  valid: boolean
  entries: number
  /** Where the chain breaks first; null when it holds. */
  brokenAt: number | null
  reason: string | null
  head: { seq: number; hash: string }
}

/** Walks the whole audit chain and says whether, and where, it was tampered with. */
export async function verifyActivityChain(
  deps: { sealer: Sealer; db: Db },
  batchSize = 1000,
): Promise<ChainCheck> {
  const head = await readActivityHead(deps.db)
  const kept = await openKeptSigningKeys(deps.db, deps.sealer)
  let previous = { seq: 0, hash: '' }
  const broken = (seq: number, reason: string): ChainCheck => ({
    valid: false,
    entries: previous.seq,
    brokenAt: seq,
    reason,
    head,
  })
  while (previous.seq < head.seq) {
    const rows = await readActivityChain(deps.db, previous.seq, batchSize)
    if (rows.length === 0) break
    for (const { hash, ...row } of rows) {
      if (row.seq > head.seq) break
      if (row.seq !== previous.seq + 1) return broken(previous.seq + 1, 'an entry is missing')
      if (row.previous_hash !== previous.hash) return broken(row.seq, 'the link is broken')
      const key = deps.sealer.signingKeyById(row.key_id) ?? kept.get(row.key_id)
      if (!key) return broken(row.seq, 'its encryption key is not configured')
      if (hashRow(key, row) !== hash) return broken(row.seq, 'the entry was changed')
      previous = { seq: row.seq, hash }
    }
  }
  if (previous.seq !== head.seq) return broken(previous.seq + 1, 'the end of the log is missing')
  if (previous.hash !== head.hash) return broken(head.seq, 'the end of the log was changed')
  return { valid: true, entries: head.seq, brokenAt: null, reason: null, head }
}
