import { createHmac } from 'node:crypto'
import { canonicalJson } from '../../domain/json.ts'
import type { Sealer } from '../../domain/sealed.ts'
import type { HeadRow, SealRow } from '../../repositories/audit/activity-chain.ts'
import type { ActivityRow } from '../../repositories/audit/activity-queries.ts'

// Signatures and seals that show changes to the audit log. Each entry is signed when it is written. Each seal covers its entry,
// its place and the seal before it. The end of the chain is signed as well. The keys are derived from ENCRYPTION_KEYS, so write
// access to the database alone is not enough to make any of these.

/** What the hash of an entry covers. */
export type EntryFields = Omit<ActivityRow, 'seq' | 'hash' | 'previous_hash'>

/** The hash of a new entry, which has no place yet. */
export function hashEntry(key: Buffer, { created_at, ...fields }: EntryFields): string {
  return sign(key, { kind: 'entry', ...fields, created_at: created_at.toISOString() })
}

/** Whether the entry was signed with this key and has not changed since. */
export function isSignedWith(key: Buffer, row: ActivityRow): boolean {
  const { hash, ...covered } = row
  if (row.previous_hash === null) {
    const { seq, previous_hash, ...fields } = covered
    return hashEntry(key, fields) === hash
  }
  // From before entries had separate seals: the hash covers place and link too.
  if (!Number.isSafeInteger(row.seq)) return false
  return sign(key, { ...covered, created_at: covered.created_at.toISOString() }) === hash
}

/** The seal that gives a signed entry its place after `previous`. */
export function sealEntry(
  key: Buffer,
  entry: Pick<ActivityRow, 'id' | 'seq' | 'hash'>,
  previous: { seq: number; hash: string },
): SealRow {
  const seal = { seq: previous.seq + 1, entry_id: entry.id, previous_hash: previous.hash }
  return { ...seal, hash: hashSeal(key, entry, seal) }
}

/** Whether the seal was made with this key for this entry, its place and its link, and has not changed since. */
export function isSealedWith(key: Buffer, entry: ActivityRow, { hash, ...seal }: SealRow): boolean {
  if (entry.previous_hash === null) return hashSeal(key, entry, seal) === hash
  return entry.hash === hash && entry.previous_hash === seal.previous_hash && entry.seq === seal.seq
}

function hashSeal(
  key: Buffer,
  entry: Pick<ActivityRow, 'seq' | 'hash'>,
  seal: Omit<SealRow, 'hash'>,
): string {
  return sign(key, {
    kind: 'seal',
    ...seal,
    // A number that this service did not write may exceed the safe integers, and is then a bigint.
    seq: String(seal.seq),
    entry_seq: String(entry.seq),
    entry_hash: entry.hash,
  })
}

/** The head of the chain, signed with the first of the configured keys. */
export function signHead(sealer: Sealer, end: { seq: number; hash: string }): HeadRow {
  const { id, key } = sealer.signingKey()
  const head = { seq: end.seq, hash: end.hash, key_id: id }
  return { ...head, mac: hashHead(key, head) }
}

/** Whether a configured key has signed the head. A replaced key does not count, since it may have leaked. */
export function isHeadAuthentic(sealer: Sealer, head: HeadRow | undefined): boolean {
  if (!head || head.key_id === null) return false
  const key = sealer.signingKeyById(head.key_id)
  return key !== undefined && hashHead(key, head) === head.mac
}

function hashHead(key: Buffer, { seq, hash, key_id }: Omit<HeadRow, 'mac'>): string {
  return sign(key, { kind: 'head', seq: String(seq), hash, key_id })
}

function sign(key: Buffer, content: Record<string, unknown>): string {
  return createHmac('sha256', key).update(canonicalJson(content)).digest('hex')
}
