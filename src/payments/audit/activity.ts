import { randomUUID } from 'node:crypto'
import type { Db, Trx } from '../../db/database.ts'
import { AppError, codeOfFailure } from '../../errors/app-error.ts'
import { readHead } from '../../repositories/audit/activity-chain.ts'
import {
  type ActivityFilter,
  type ActivityNotice,
  activityChannel,
  appendActivity,
  type ListedActivity,
  listActivity,
  type NewActivity,
} from '../../repositories/audit/activity-queries.ts'
import type { ListPage, PageRequest, SequenceCursor } from '../../repositories/list-page.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { isHeadAuthentic, isSigned, signEntry } from './signatures.ts'

/** What is needed to write an entry. */
export type AuditDeps = Pick<PaymentDeps, 'auditKey' | 'now'> & {
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

/** Runs a write, and records its failure in the audit log before it is thrown. */
export async function auditFailure<T>(
  deps: PaymentDeps,
  entry: ActivityEntry,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    await recordFailedWrite(deps, entry, error)
    throw error
  }
}

/** Records the failure of a write in the audit log. Never fails: a log that cannot be written must not hide the failure. */
export async function recordFailedWrite(
  deps: PaymentDeps,
  entry: ActivityEntry,
  error: unknown,
): Promise<void> {
  const code = codeOfFailure(error)
  // A request of invalid form is not a failed write. One that the provider caused is.
  const isBadForm = code === 'VALIDATION_ERROR' && !(error as AppError).cause
  if (isBadForm || code === 'SERVICE_UNAVAILABLE') return
  const errorMessage = error instanceof AppError ? `${code}: ${error.message}` : code
  await append(deps, deps.database.db, signFailure(deps, entry, errorMessage)).catch((cause) =>
    deps.log.error({ err: cause }, 'audit entry of a failure not written'),
  )
}

/**
 * A page of the audit log, newest first. `isForged`: the service did not write the row, so it is not an entry. It must not be
 * shown; it is in the page so that the next page begins after it. An entry that was changed after it was sealed stays visible.
 */
export async function readActivity(
  { database: { db }, auditKey }: Pick<PaymentDeps, 'database' | 'auditKey'>,
  filter: ActivityFilter,
  pageRequest: PageRequest<SequenceCursor>,
): Promise<ListPage<ListedActivity & { isForged: boolean }>> {
  const isAuthentic = isHeadAuthentic(auditKey, await readHead(db))
  const page = await listActivity(db, filter, pageRequest, { isHeadAuthentic: isAuthentic })
  const isForged = ({ seal, ...entry }: ListedActivity) =>
    !(seal && isAuthentic) && !isSigned(auditKey, entry)
  return { ...page, rows: page.rows.map((row) => ({ ...row, isForged: isForged(row) })) }
}

type NewEntry = ActivityEntry & { status: 'success' | 'failed'; errorMessage: string | null }

/** A signed entry of a success, to be written with the change that it records. */
export function signSuccess(
  deps: Pick<PaymentDeps, 'auditKey' | 'now'>,
  entry: ActivityEntry,
): NewActivity {
  return sign(deps, { ...entry, status: 'success', errorMessage: null })
}

/** A signed entry of a failure. */
function signFailure(
  deps: Pick<PaymentDeps, 'auditKey' | 'now'>,
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
  { auditKey, now }: Pick<PaymentDeps, 'auditKey' | 'now'>,
  entry: NewEntry,
): NewActivity {
  const createdAt = now()
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
  }
  return { ...row, mac: signEntry(auditKey, row) }
}
