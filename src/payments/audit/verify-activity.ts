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
import { type ChainPlace, isHeadAuthentic, isSigned, sealEntry } from './signatures.ts'

/** One place where the log is not as it was written. */
type ChainFinding = {
  /** The place in the chain. Without a place: the one after its end. */
  seq: number
  entryId: string | null
  reason: string
}

export type ChainCheck = Awaited<ReturnType<typeof verifyActivityChain>>

export type VerifyOptions = {
  /** Place and hash of an entry, from an earlier check or the service's log. */
  checkpoint?: { seq: number; hash: string } | undefined
  /** Ends the check, with its reason. */
  signal?: AbortSignal
  /** Entries read at a time. */
  batch?: number
}

const findingsAtMost = 100

type Check = { auditKey: KeyObject; db: Db }

/**
 * Reads the audit log and reports whether, and where, it was changed. It writes nothing, reads each row at most twice, in
 * batches with pauses for others, and ends at 100 findings. Rows that no process of this service has written are reported
 * and otherwise ignored.
 */
export async function verifyActivityChain(deps: Check, options: VerifyOptions = {}) {
  return new ChainWalk(deps, options, await readHead(deps.db)).verify()
}

class ChainWalk {
  readonly #auditKey: KeyObject
  readonly #db: Db
  readonly #options: VerifyOptions
  readonly #batch: number
  readonly #head: HeadRow | undefined
  /** The head, if this service has signed it. */
  #trusted: HeadRow | undefined
  readonly #findings: ChainFinding[] = []
  #isCheckpointFound = false

  constructor({ auditKey, db }: Check, options: VerifyOptions, head: HeadRow | undefined) {
    this.#auditKey = auditKey
    this.#db = db
    this.#options = options
    this.#batch = options.batch ?? 500
    this.#head = head
    this.#trusted = isHeadAuthentic(auditKey, head) ? head : undefined
  }

  async verify() {
    const end = await this.#walkSeals()
    const last = this.#trusted ?? this.#head
    this.#judgeHead(last, end)
    await this.#reportBeyondHead()
    const unsealed = await this.#countUnsealed(end.seq + 1)
    this.#judgeCheckpoint(startOf(last), end)
    return this.#report(last, end, unsealed)
  }

  /** Reads up to the head, or to the last seal when the head is unknown. Returns the last place. */
  async #walkSeals(): Promise<ChainPlace> {
    let previous = startOf(this.#head)
    let cursor: number | undefined
    this.#note(previous)
    while (!this.#isFull()) {
      await this.#turn()
      const rows = await readSealed(this.#db, cursor, this.#batch)
      const next = rows.find(({ seal }) => seal.seq > previous.seq)?.seal.seq
      if (next !== previous.seq + 1 && (await this.#startsLater(previous))) {
        previous = startOf(this.#trusted)
        cursor = previous.seq
        continue
      }
      for (const one of rows) {
        const { seal } = one
        // Seals beyond the head are reported separately; while this walk runs, genuine ones are added there too.
        if (this.#isFull() || (this.#trusted && seal.seq > this.#trusted.seq)) return previous
        cursor = seal.seq
        previous = this.#judgeSeal(one, previous)
      }
      if (rows.length < this.#batch) break
    }
    return previous
  }

  /** Reports what is wrong with a seal. Returns the place after it. */
  #judgeSeal(sealed: SealedEntry, previous: ChainPlace): ChainPlace {
    const { seal } = sealed
    if (seal.seq <= previous.seq) {
      this.#find(Number(seal.seq), seal.entry_id, 'an entry was added')
      return previous
    }
    if (seal.seq > previous.seq + 1) this.#find(previous.seq + 1, null, 'an entry is missing')
    const wrong = whatIsWrong(this.#auditKey, this.#trusted, sealed, previous)
    if (wrong !== undefined) this.#find(Number(seal.seq), seal.entry_id, wrong)
    const place = { seq: Number(seal.seq), hash: seal.hash }
    this.#note(place)
    return place
  }

  /** Whether the entries after this place were deleted for their age since the check began; the check goes on with the new head. */
  async #startsLater({ seq }: ChainPlace): Promise<boolean> {
    const now = await readHead(this.#db)
    const isLater = isHeadAuthentic(this.#auditKey, now) && now.start_seq > seq
    if (!this.#trusted || !isLater) return false
    this.#trusted = now
    return true
  }

  #judgeHead(row: HeadRow | undefined, last: ChainPlace): void {
    if (this.#isFull()) return
    if (!row) this.#find(last.seq + 1, null, 'the head of the log is missing')
    else if (!this.#trusted) {
      this.#find(Math.min(Number(row.seq), last.seq) + 1, null, 'the head of the log was changed')
    } else if (last.seq < row.seq) this.#find(last.seq + 1, null, 'the end of the log is missing')
    else if (last.hash !== row.hash) this.#find(row.seq, null, 'the end of the log was changed')
  }

  async #reportBeyondHead(): Promise<void> {
    if (!this.#trusted || this.#isFull()) return
    for (const { seq, entry_id } of await readBeyondHead(this.#db, findingsAtMost)) {
      this.#find(Number(seq), entry_id, 'an entry was added')
    }
  }

  /** Counts genuine entries that wait for their place, `next` at the earliest, and reports those that have none and do not wait. */
  async #countUnsealed(next: number): Promise<number> {
    if (this.#isFull()) return 0
    let count = 0
    let after: number | undefined
    const reported = new Set(this.#findings.map(({ entryId }) => entryId))
    while (!this.#isFull()) {
      await this.#turn()
      const page = await readUnchained(this.#db, {
        ...(after !== undefined && { after }),
        limit: this.#batch,
        isHeadAuthentic: this.#trusted !== undefined,
      })
      for (const { isWaiting, ...entry } of page.entries) {
        if (!isSigned(this.#auditKey, entry)) {
          // An entry with a seal beyond the head is reported already.
          if (!reported.has(entry.id)) this.#find(next, entry.id, 'an entry was added')
        } else if (isWaiting) count += 1
        else this.#find(next, entry.id, 'an entry was kept out of the chain')
      }
      if (page.last === undefined) break
      after = page.last
    }
    for (const id of await readLostUnsealed(this.#db, findingsAtMost)) {
      this.#find(next, id, 'an entry is missing')
    }
    return count
  }

  #judgeCheckpoint(start: ChainPlace, end: ChainPlace): void {
    const { checkpoint } = this.#options
    if (!checkpoint || checkpoint.seq < start.seq || this.#isCheckpointFound) return
    this.#find(Math.min(checkpoint.seq, end.seq + 1), null, 'the checkpoint is not in the log')
  }

  #report(last: HeadRow | undefined, end: ChainPlace, unsealed: number) {
    const { checkpoint } = this.#options
    const findings = this.#findings.toSorted((a, b) => a.seq - b.seq).slice(0, findingsAtMost)
    const first = findings[0]
    const start = startOf(last)
    return {
      valid: first === undefined,
      /** Where the chain starts: the place of the last entry that was deleted for its age; 0 for none. */
      start: start.seq,
      /** How many entries are valid, from the start on. */
      entries: Math.max(0, Math.min(end.seq, first ? first.seq - 1 : end.seq) - start.seq),
      /** Where the chain breaks first, and why; null when it is intact. */
      brokenAt: first?.seq ?? null,
      reason: first?.reason ?? null,
      /** The end of the sealed entries. */
      head: { seq: Number(last?.seq ?? 0), hash: last?.hash ?? '' },
      /** Up to this place the contents of entries cannot be checked, because their audit key was lost; null when none was. */
      lost: last?.lost_seq ? Number(last.lost_seq) : null,
      /** Genuine entries after the end, which are not sealed yet. */
      unsealed,
      findings,
      /** Whether the chain contains the requested checkpoint; null when none was requested. */
      checkpoint: checkpoint ? { seq: checkpoint.seq, found: this.#isCheckpointFound } : null,
    }
  }

  #find(seq: number, entryId: string | null, reason: string): void {
    this.#findings.push({ seq, entryId, reason })
  }

  #isFull(): boolean {
    return this.#findings.length >= findingsAtMost
  }

  #note({ seq, hash }: ChainPlace): void {
    const { checkpoint } = this.#options
    if (seq === checkpoint?.seq && hash === checkpoint.hash) this.#isCheckpointFound = true
  }

  async #turn(): Promise<void> {
    await nextTurn()
    this.#options.signal?.throwIfAborted()
  }
}

/** What is wrong with an entry and its seal; undefined when both are as they were written. After a gap the link is not checked. */
export function whatIsWrong(
  auditKey: KeyObject,
  head: HeadRow | undefined,
  { seal, entry }: SealedEntry,
  previous: ChainPlace,
): string | undefined {
  if (!entry) return 'an entry is missing'
  const isLost = head !== undefined && seal.seq <= head.lost_seq
  if (!isLost && !isSigned(auditKey, entry)) return 'the entry was changed'
  if (seal.seq !== previous.seq + 1) return undefined
  return seal.hash === sealEntry(entry, previous).hash ? undefined : 'the link is broken'
}

function startOf(head: HeadRow | undefined): ChainPlace {
  return { seq: Number(head?.start_seq ?? 0), hash: head?.start_hash ?? '' }
}
