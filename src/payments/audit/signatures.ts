import { createHash, createHmac, type KeyObject } from 'node:crypto'
import { canonicalJson } from '../../domain/json.ts'
import type { HeadRow, SealRow } from '../../repositories/audit/activity-chain.ts'
import type { ActivityRow, NewActivity } from '../../repositories/audit/activity-queries.ts'

// What shows changes to the audit log. Each entry has an HMAC, made before it is committed. Each seal is a hash over its place, its
// entry and the hash before it. The head, an HMAC over start and end of the chain, makes all seals authentic. The database has the
// audit key only encrypted, so write access to it is not enough to make an entry or a head.

/** A place in the chain. */
export type ChainPlace = { seq: number; hash: string }

/** The HMAC of an entry. It does not cover `seq`, which the database gives; the seal does. */
export function signEntry(key: KeyObject, entry: Omit<NewActivity, 'mac'>): string {
  const { created_at, ...fields } = entry
  return sign(key, { kind: 'entry', ...fields, created_at: created_at.toISOString() })
}

/** Whether the service made the entry, and it has not changed since. */
export function isSigned(key: KeyObject, { seq, mac, ...entry }: ActivityRow): boolean {
  return signEntry(key, entry) === mac
}

/** The seal of an entry at the place after `previous`. */
export function sealEntry(
  entry: Pick<ActivityRow, 'id' | 'seq' | 'mac'>,
  previous: ChainPlace,
): SealRow {
  const seq = previous.seq + 1
  // A number that this service did not write may exceed the safe integers, and is then a bigint.
  const content = JSON.stringify([previous.hash, entry.mac, String(entry.seq), seq])
  return { seq, entry_id: entry.id, hash: createHash('sha256').update(content).digest('hex') }
}

/** The head with its signature. */
export function signHead(key: KeyObject, { mac: _, ...head }: HeadRow): HeadRow {
  return { ...head, mac: macOf(key, head) }
}

/** Whether the service wrote the head. */
export function isHeadAuthentic(key: KeyObject, row: HeadRow | undefined): row is HeadRow {
  if (!row) return false
  const { mac, ...head } = row
  return macOf(key, head) === mac
}

function macOf(key: KeyObject, head: Omit<HeadRow, 'mac'>): string {
  const texts = Object.entries(head).map(([name, value]) => [name, String(value)])
  return sign(key, { kind: 'head', ...Object.fromEntries(texts) })
}

function sign(key: KeyObject, content: Record<string, unknown>): string {
  return createHmac('sha256', key).update(canonicalJson(content)).digest('hex')
}
