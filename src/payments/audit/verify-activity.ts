import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Db } from '../../db/database.ts'
import type { Encryption } from '../../domain/encryption.ts'
import {
  findArchiveAfter,
  type HeadRow,
  readBeyondHead,
  readHead,
  readLostUnsealed,
  readSealed,
  readUnchained,
  type SealedEntry,
} from '../../repositories/audit/activity-chain.ts'
import type { ActivityRow } from '../../repositories/audit/activity-queries.ts'
import { isHeadAuthentic, isSealedWith, isSignedWith } from './activity.ts'
import { ArchiveFileError, readArchive } from './archive-file.ts'
import { openKeptSigningKeys } from './kept-signing-keys.ts'

/** One place where the log is not as it was written. */
type ChainFinding = {
  /** The place in the chain. Without a place: the one after its end. */
  seq: number
  entryId: string | null
  reason: string
}

export type ChainCheck = {
  valid: boolean
  /** How many entries are valid, from the first on. */
  entries: number
  /** Where the chain breaks first, and why; null when it is intact. */
  brokenAt: number | null
  reason: string | null
  /** The end of the sealed entries. */
  head: { seq: number; hash: string }
  /** Genuine entries after it, which are not sealed yet. */
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
 * Reads the audit log, its archive files first, and reports whether, and where, it was changed. It writes nothing, reads each row at most twice, in batches
 * with pauses for others, and ends at 100 findings. Rows that no process of this service has written are reported and otherwise
 * ignored.
 */
export async function verifyActivityChain(
  {
    encryption,
    db,
    archiveDir,
  }: { encryption: Encryption; db: Db; archiveDir?: string | undefined },
  { checkpoint, signal, batch = 500 }: VerifyOptions = {},
): Promise<ChainCheck> {
  const head = await readHead(db)
  const isTrusted = isHeadAuthentic(encryption, head)
  const kept = await openKeptSigningKeys(db, encryption)
  const keyOf = ({ key_id }: ActivityRow) => encryption.signingKeyById(key_id) ?? kept.get(key_id)
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
  judgeHead(head, end)
  if (isTrusted && !isFull()) {
    for (const { seq, entry_id } of await readBeyondHead(db, findingsAtMost)) {
      find(Number(seq), entry_id, 'an entry was added')
    }
  }
  const unsealed = isFull() ? 0 : await countUnsealed()
  if (checkpoint && !isCheckpointFound) {
    find(Math.min(checkpoint.seq, end.seq + 1), null, 'the checkpoint is not in the log')
  }

  const reported = findings.toSorted((a, b) => a.seq - b.seq).slice(0, findingsAtMost)
  const first = reported[0]
  return {
    valid: first === undefined,
    entries: first === undefined ? end.seq : Math.max(0, Math.min(end.seq, first.seq - 1)),
    brokenAt: first?.seq ?? null,
    reason: first?.reason ?? null,
    head: { seq: Number(head?.seq ?? 0), hash: head?.hash ?? '' },
    unsealed,
    findings: reported,
    checkpoint: checkpoint ? { seq: checkpoint.seq, found: isCheckpointFound } : null,
  }

  /** Reads up to the head, or to the last seal when the head is unknown. Returns the last place. */
  async function walkSeals(): Promise<{ seq: number; hash: string }> {
    let previous = { seq: 0, hash: '' }
    let cursor: { seq: number; hash: string } | undefined
    while (!isFull()) {
      await turn()
      const archive = await findArchiveAfter(db, previous.seq)
      const archived = archive && (await readArchive(archiveDir, archive).catch(toFinding))
      if (typeof archived === 'string') {
        find(previous.seq + 1, null, archived)
        // The rest is checked as if the file held what its record says.
        previous = { seq: Number(archive?.last_seq), hash: String(archive?.last_hash) }
        continue
      }
      // The first of a file that was made meanwhile have been read from the database.
      const unread = archived?.filter(({ seal }) => seal.seq > previous.seq)
      const rows = unread ?? (await readSealed(db, cursor, batch))
      // What was read next may have been archived since the search for an archive.
      const next = rows.find(({ seal }) => seal.seq > previous.seq)?.seal.seq
      if (!archived && next !== previous.seq + 1 && (await findArchiveAfter(db, previous.seq)))
        continue
      for (const [index, { seal, entry }] of rows.entries()) {
        if (isFull()) return previous
        if (index > 0 && index % batch === 0) await turn()
        if (!archived) cursor = seal
        // Seals beyond the head are reported separately; while this walk runs, genuine ones are added there too.
        if (isTrusted && head && seal.seq > head.seq) return previous
        const wrong = judge({ seal, entry })
        const hasRival = rows[index + 1]?.seal.seq === seal.seq
        if (seal.seq <= previous.seq || (wrong !== undefined && hasRival)) {
          find(Number(seal.seq), seal.entry_id, 'an entry was added')
          continue
        }
        if (seal.seq > previous.seq + 1) find(previous.seq + 1, null, 'an entry is missing')
        else if (wrong === undefined && seal.previous_hash !== previous.hash) {
          find(seal.seq, seal.entry_id, 'the link is broken')
        }
        if (wrong !== undefined) find(Number(seal.seq), seal.entry_id, wrong)
        previous = { seq: Number(seal.seq), hash: seal.hash }
        if (previous.seq === checkpoint?.seq && previous.hash === checkpoint.hash) {
          isCheckpointFound = true
        }
      }
      if (!archived && rows.length < batch) break
    }
    return previous
  }

  /** What is wrong with a seal and its entry, apart from the chain. */
  function judge({ seal, entry }: SealedEntry): string | undefined {
    if (!entry) return 'an entry is missing'
    const key = keyOf(entry)
    if (!key) return 'its encryption key is not configured'
    if (!isSignedWith(key, entry)) return 'the entry was changed'
    return isSealedWith(key, entry, seal) ? undefined : 'the link is broken'
  }

  function judgeHead(row: HeadRow | undefined, last: { seq: number; hash: string }): void {
    if (isFull()) return
    if (!row) find(last.seq + 1, null, 'the head of the log is missing')
    else if (!isTrusted) {
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
        isHeadAuthentic: isTrusted,
      })
      for (const { isWaiting, ...entry } of page.entries) {
        const key = keyOf(entry)
        const isOurs = key !== undefined && entry.previous_hash === null && isSignedWith(key, entry)
        if (isWaiting && encryption.signingKeyById(entry.key_id) === undefined) {
          find(next, entry.id, 'its encryption key is not configured')
        } else if (!isOurs) {
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

/** What the check says of an archive that cannot be read. */
function toFinding(error: unknown): string {
  if (error instanceof ArchiveFileError) return error.message
  throw error
}
