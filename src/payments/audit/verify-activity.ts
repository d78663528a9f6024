import type { KeyObject } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Db } from '../../db/database.ts'
import {
  type HeadRow,
  readBeyondHead,
  readHead,
  readLostUnsealed,
  readSealed,
  readUnchained,
  type SealedEntry,
} from '../../repositories/audit/activity-chain.ts'
import { isHeadAuthentic, isSigned, type Place, sealEntry } from './signatures.ts'

/** One place where the log is not as it was written. */
type ChainFinding = {
  /** The place in the chain. Without a place: the one after its end. */
  seq: number
  entryId: string | null
  reason: string
}

export type ChainCheck = {
  valid: boolean
  /** Where the chain starts: the place of the last entry that was deleted for its age; 0 for none. */
  start: number
  /** How many entries are valid, from the start on. */
  entries: number
  /** Where the chain breaks first, and why; null when it is intact. */
  brokenAt: number | null
  reason: string | null
  /** The end of the sealed entries. */
  head: { seq: number; hash: string }
  /** Up to this place the contents of entries cannot be checked, because their audit key was lost; null when none was. */
  lost: number | null
  /** Genuine entries after the end, which are not sealed yet. */
  unsealed: number
  /** In order of place; at most 100. */
  findings: ChainFinding[]
  /** Whether the chain contains the requested checkpoint; null when none was requested. */
  checkpoint: { seq: number; found: boolean } | null
}

export type VerifyOptions = {
  /** Place and hash of an entry, from an earlier check or the service's log. */
  checkpoint?: { seq: number; hash: string } | undefined
  /** Ends the check, with its reason. */
  signal?: AbortSignal
  /** Entries read at a time. */
  batch?: number
}

const findingsAtMost = 100

/**
 * Reads the audit log and reports whether, and where, it was changed. It writes nothing, reads each row at most twice, in batches
 * with pauses for others, and ends at 100 findings. Rows that no process of this service has written are reported and otherwise
 * ignored.
 */
export async function verifyActivityChain(
  { auditKey, db }: { auditKey: KeyObject; db: Db },
  { checkpoint, signal, batch = 500 }: VerifyOptions = {},
): Promise<ChainCheck> {
  const head = await readHead(db)
  let trusted = isHeadAuthentic(auditKey, head) ? head : undefined
  const findings: ChainFinding[] = []
  const find = (seq: number, entryId: string | null, reason: string) => {
    findings.push({ seq, entryId, reason })
  }
  const isFull = () => findings.length >= findingsAtMost
  const turn = async () => {
    await nextTurn()
    signal?.throwIfAborted()
  }

  let isCheckpointFound = false
  const end = await walkSeals()
  const last = trusted ?? head
  const start = startOf(last)
  judgeHead(last, end)
  if (trusted && !isFull()) {
    for (const { seq, entry_id } of await readBeyondHead(db, findingsAtMost)) {
      find(Number(seq), entry_id, 'an entry was added')
    }
  }
  const unsealed = isFull() ? 0 : await countUnsealed()
  if (checkpoint && checkpoint.seq >= start.seq && !isCheckpointFound) {
    find(Math.min(checkpoint.seq, end.seq + 1), null, 'the checkpoint is not in the log')
  }

  const reported = findings.toSorted((a, b) => a.seq - b.seq).slice(0, findingsAtMost)
  const first = reported[0]
  return {
    valid: first === undefined,
    start: start.seq,
    entries: Math.max(0, Math.min(end.seq, first ? first.seq - 1 : end.seq) - start.seq),
    brokenAt: first?.seq ?? null,
    reason: first?.reason ?? null,
    head: { seq: Number(last?.seq ?? 0), hash: last?.hash ?? '' },
    lost: last?.lost_seq ? Number(last.lost_seq) : null,
    unsealed,
    findings: reported,
    checkpoint: checkpoint ? { seq: checkpoint.seq, found: isCheckpointFound } : null,
  }

  /** Reads up to the head, or to the last seal when the head is unknown. Returns the last place. */
  async function walkSeals(): Promise<Place> {
    let previous = startOf(head)
    let cursor: number | undefined
    note(previous)
    while (!isFull()) {
      await turn()
      const rows = await readSealed(db, cursor, batch)
      const next = rows.find(({ seal }) => seal.seq > previous.seq)?.seal.seq
      if (next !== previous.seq + 1 && (await startsLater(previous))) {
        previous = startOf(trusted)
        cursor = previous.seq
        continue
      }
      for (const one of rows) {
        const { seal } = one
        // Seals beyond the head are reported separately; while this walk runs, genuine ones are added there too.
        if (isFull() || (trusted && seal.seq > trusted.seq)) return previous
        cursor = seal.seq
        if (seal.seq <= previous.seq) {
          find(Number(seal.seq), seal.entry_id, 'an entry was added')
          continue
        }
        if (seal.seq > previous.seq + 1) find(previous.seq + 1, null, 'an entry is missing')
        const wrong = whatIsWrong(auditKey, trusted, one, previous)
        if (wrong !== undefined) find(Number(seal.seq), seal.entry_id, wrong)
        previous = { seq: Number(seal.seq), hash: seal.hash }
        note(previous)
      }
      if (rows.length < batch) break
    }
    return previous
  }

  /** Whether the entries after this place were deleted for their age since the check began; the check goes on with the new head. */
  async function startsLater({ seq }: Place): Promise<boolean> {
    const now = await readHead(db)
    if (!trusted || !isHeadAuthentic(auditKey, now) || now.start_seq <= seq) return false
    trusted = now
    return true
  }

  function note({ seq, hash }: Place): void {
    if (seq === checkpoint?.seq && hash === checkpoint.hash) isCheckpointFound = true
  }

  function judgeHead(row: HeadRow | undefined, last: Place): void {
    if (isFull()) return
    if (!row) find(last.seq + 1, null, 'the head of the log is missing')
    else if (!trusted) {
      find(Math.min(Number(row.seq), last.seq) + 1, null, 'the head of the log was changed')
    } else if (last.seq < row.seq) find(last.seq + 1, null, 'the end of the log is missing')
    else if (last.hash !== row.hash) find(row.seq, null, 'the end of the log was changed')
  }

  /** Reports entries that have no place and are not waiting for one. */
  async function countUnsealed(): Promise<number> {
    let count = 0
    let after: number | undefined
    const next = end.seq + 1
    const reported = new Set(findings.map(({ entryId }) => entryId))
    while (!isFull()) {
      await turn()
      const page = await readUnchained(db, {
        ...(after !== undefined && { after }),
        limit: batch,
        isHeadAuthentic: trusted !== undefined,
      })
      for (const { isWaiting, ...entry } of page.entries) {
        if (!isSigned(auditKey, entry)) {
          // An entry with a seal beyond the head is reported already.
          if (!reported.has(entry.id)) find(next, entry.id, 'an entry was added')
        } else if (isWaiting) count += 1
        else find(next, entry.id, 'an entry was kept out of the chain')
      }
      if (page.last === undefined) break
      after = page.last
    }
    for (const id of await readLostUnsealed(db, findingsAtMost)) {
      find(next, id, 'an entry is missing')
    }
    return count
  }
}

/** What is wrong with an entry and its seal; undefined when both are as they were written. After a gap the link is not checked. */
export function whatIsWrong(
  auditKey: KeyObject,
  head: HeadRow | undefined,
  { seal, entry }: SealedEntry,
  previous: Place,
): string | undefined {
  if (!entry) return 'an entry is missing'
  const isLost = head !== undefined && seal.seq <= head.lost_seq
  if (!isLost && !isSigned(auditKey, entry)) return 'the entry was changed'
  if (seal.seq !== previous.seq + 1) return undefined
  return seal.hash === sealEntry(entry, previous).hash ? undefined : 'the link is broken'
}

function startOf(head: HeadRow | undefined): Place {
  return { seq: Number(head?.start_seq ?? 0), hash: head?.start_hash ?? '' }
}
