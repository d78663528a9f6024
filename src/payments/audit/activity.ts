import { createHmac, type KeyObject, randomUUID } from 'node:crypto'
import type { Db, Trx } from '../../db/database.ts'
import type { Encryption } from '../../domain/encryption.ts'
import { canonicalJson } from '../../domain/json.ts'
import { AppError } from '../../errors/app-error.ts'
import { type HeadRow, readHead, type SealRow } from '../../repositories/audit/activity-chain.ts'
import {
  type ActivityFilter,
  type ActivityNotice,
  type ActivityRow,
  activityChannel,
  appendActivity,
  type ListedActivity,
  listActivity,
  type NewActivity,
} from '../../repositories/audit/activity-queries.ts'
import type { ListPage, PageRequest, SequenceCursor } from '../../repositories/list-page.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { openKeptSigningKeys } from './kept-signing-keys.ts'

/** What is needed to write an entry. */
export type AuditDeps = Pick<PaymentDeps, 'encryption' | 'now'> & {
  database: Pick<PaymentDeps['database'], 'announce'>
}

export type ActivityEntry = {
  client: string | null
  actor: Actor
  /** `<resource>.<what happened>`, such as `order.created`. */
  action: string
  resourceId: string | null
  metadata?: Record<string, unknown>
}

/** Appends a success to the audit log, in the transaction of the change that it reports. */
export async function recordSuccess(
  deps: AuditDeps,
  trx: Trx,
  entry: ActivityEntry,
): Promise<void> {
  await append(deps, trx, signSuccess(deps, entry))
}

/** Appends a failure that is part of a change, in its transaction. */
export async function recordFailure(
  deps: AuditDeps,
  trx: Trx,
  entry: ActivityEntry,
  errorMessage: string,
): Promise<void> {
  await append(deps, trx, signFailure(deps, entry, errorMessage))
}

/**
 * Runs a write and records its failure in the audit log. The failure itself is always thrown: a log that cannot be written must
 * not hide it.
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
    // A request of invalid form is not a failed write. One that the provider caused is.
    const isBadForm = code === 'VALIDATION_ERROR' && !(error as AppError).cause
    if (!isBadForm && code !== 'SERVICE_UNAVAILABLE') {
      const errorMessage = error instanceof AppError ? `${code}: ${error.message}` : code
      await append(deps, deps.database.db, signFailure(deps, entry, errorMessage)).catch((cause) =>
        deps.log.error({ err: cause }, 'audit entry of a failure not written'),
      )
    }
    throw error
  }
}

/**
 * A page of the audit log, newest first. `isForged`: no process of this service made the row or its seal, so it is not an entry.
 * It must not be shown; it is in the page so that the next page begins after it.
 */
export async function readActivity(
  { database: { db }, encryption }: Pick<PaymentDeps, 'database' | 'encryption'>,
  filter: ActivityFilter,
  pageRequest: PageRequest<SequenceCursor>,
): Promise<ListPage<ListedActivity & { isForged: boolean }>> {
  const head = await readHead(db)
  const kept = await openKeptSigningKeys(db, encryption)
  const page = await listActivity(db, filter, pageRequest, {
    isHeadAuthentic: isHeadAuthentic(encryption, head),
  })
  const isForged = ({ seal, ...entry }: ListedActivity) => {
    const key = encryption.signingKeyById(entry.key_id) ?? kept.get(entry.key_id)
    if (!key || isSignedWith(key, entry)) return false
    // An entry that was changed after it was sealed stays visible.
    return !seal || !isSealedWith(key, entry, seal)
  }
  return { ...page, rows: page.rows.map((row) => ({ ...row, isForged: isForged(row) })) }
}

type NewEntry = ActivityEntry & { status: 'success' | 'failed'; errorMessage: string | null }

/** A signed entry of a success, to be written with the change that it records. */
export function signSuccess(
  deps: Pick<PaymentDeps, 'encryption' | 'now'>,
  entry: ActivityEntry,
): NewActivity {
  return sign(deps, { ...entry, status: 'success', errorMessage: null })
}

/** A signed entry of a failure. */
function signFailure(
  deps: Pick<PaymentDeps, 'encryption' | 'now'>,
  entry: ActivityEntry,
  errorMessage: string,
): NewActivity {
  return sign(deps, { ...entry, status: 'failed', errorMessage })
}

/** Publishes that entries were written. */
export function notifyActivity(
  { database }: Pick<AuditDeps, 'database'>,
  entries: readonly NewActivity[],
): void {
  for (const entry of entries) {
    database.announce(activityChannel, JSON.stringify(toActivityNotice(entry)))
  }
}

/** An entry as subscribers receive it. */
function toActivityNotice(entry: NewActivity): ActivityNotice {
  return {
    id: entry.id,
    client: entry.client_name,
    action: entry.action,
    resource_type: entry.resource_type,
    resource_id: entry.resource_id?.slice(0, 200) ?? null,
    status: entry.status,
  }
}

async function append(deps: AuditDeps, db: Db | Trx, entry: NewActivity): Promise<void> {
  await appendActivity(db, [entry])
  notifyActivity(deps, [entry])
}

/** Actions whose entry belongs to another resource than their name says. */
const otherResources: Readonly<Record<string, string>> = {
  'alerts.tested': 'alert',
  'control.entered': 'session',
  'control.refused': 'session',
  'invitation.created': 'client',
}

function resourceTypeOf(action: string): string {
  return otherResources[action] ?? action.slice(0, action.indexOf('.'))
}

function sign(
  { encryption, now }: Pick<PaymentDeps, 'encryption' | 'now'>,
  entry: NewEntry,
): NewActivity {
  const createdAt = now()
  const signing = encryption.signingKey()
  const { keyId, person, reason, sessionId } = entry.actor
  const metadata = JSON.stringify({
    ...entry.metadata,
    ...(keyId !== undefined && { key_id: keyId }),
    ...(person && { person_id: person.id, person: person.name }),
    ...(sessionId !== undefined && { session_id: sessionId }),
    ...(reason !== undefined && { reason }),
  })
  const row = {
    id: randomUUID(),
    client_name: entry.client,
    ip_address: entry.actor.ipAddress,
    action: entry.action,
    resource_type: resourceTypeOf(entry.action),
    // JSON refuses invalid characters.
    resource_id: entry.resourceId?.toWellFormed() ?? null,
    status: entry.status,
    error_message: entry.errorMessage?.toWellFormed() ?? null,
    // In the form in which it will be read.
    metadata: JSON.parse(metadata),
    duration_ms: Math.max(0, createdAt.getTime() - entry.actor.startedAt.getTime()),
    created_at: createdAt,
    key_id: signing.id,
  }
  return { ...row, hash: hashEntry(signing.key, row) }
}

// Signatures and seals that show changes to the audit log. Each entry is signed when it is written. Each seal covers its entry,
// its place and the seal before it. The end of the chain is signed as well. The keys are derived from ENCRYPTION_KEYS, so write
// access to the database alone is not enough to make any of these.

/** What the hash of an entry covers. */
type EntryFields = Omit<ActivityRow, 'seq' | 'hash' | 'previous_hash'>

/** The hash of a new entry, which has no place yet. */
function hashEntry(key: KeyObject, { created_at, ...fields }: EntryFields): string {
  return signContent(key, { kind: 'entry', ...fields, created_at: created_at.toISOString() })
}

/** Whether the entry was signed with this key and has not changed since. */
export function isSignedWith(key: KeyObject, row: ActivityRow): boolean {
  const { hash, ...covered } = row
  if (row.previous_hash === null) {
    const { seq, previous_hash, ...fields } = covered
    return hashEntry(key, fields) === hash
  }
  // From before entries had separate seals: the hash covers place and link too.
  if (!Number.isSafeInteger(row.seq)) return false
  return signContent(key, { ...covered, created_at: covered.created_at.toISOString() }) === hash
}

/** The seal that gives a signed entry its place after `previous`. */
export function sealEntry(
  key: KeyObject,
  entry: Pick<ActivityRow, 'id' | 'seq' | 'hash'>,
  previous: { seq: number; hash: string },
): SealRow {
  const seal = { seq: previous.seq + 1, entry_id: entry.id, previous_hash: previous.hash }
  return { ...seal, hash: hashSeal(key, entry, seal) }
}

/** Whether the seal was made with this key for this entry, its place and its link, and has not changed since. */
export function isSealedWith(
  key: KeyObject,
  entry: ActivityRow,
  { hash, ...seal }: SealRow,
): boolean {
  if (entry.previous_hash === null) return hashSeal(key, entry, seal) === hash
  return entry.hash === hash && entry.previous_hash === seal.previous_hash && entry.seq === seal.seq
}

function hashSeal(
  key: KeyObject,
  entry: Pick<ActivityRow, 'seq' | 'hash'>,
  seal: Omit<SealRow, 'hash'>,
): string {
  return signContent(key, {
    kind: 'seal',
    ...seal,
    // A number that this service did not write may exceed the safe integers, and is then a bigint.
    seq: String(seal.seq),
    entry_seq: String(entry.seq),
    entry_hash: entry.hash,
  })
}

/** The head of the chain, signed with the first of the configured keys. */
export function signHead(encryption: Encryption, end: { seq: number; hash: string }): HeadRow {
  const { id, key } = encryption.signingKey()
  const head = { seq: end.seq, hash: end.hash, key_id: id }
  return { ...head, mac: hashHead(key, head) }
}

/** Whether a configured key has signed the head. A replaced key does not count, since it may have leaked. */
export function isHeadAuthentic(encryption: Encryption, head: HeadRow | undefined): boolean {
  if (!head || head.key_id === null) return false
  const key = encryption.signingKeyById(head.key_id)
  return key !== undefined && hashHead(key, head) === head.mac
}

function hashHead(key: KeyObject, { seq, hash, key_id }: Omit<HeadRow, 'mac'>): string {
  return signContent(key, { kind: 'head', seq: String(seq), hash, key_id })
}

function signContent(key: KeyObject, content: Record<string, unknown>): string {
  return createHmac('sha256', key).update(canonicalJson(content)).digest('hex')
}
