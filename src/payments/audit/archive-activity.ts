import { isDeepStrictEqual } from 'node:util'
import type { Db } from '../../db/database.ts'
import type { Encryption } from '../../domain/encryption.ts'
import {
  type ArchiveRow,
  moveToArchive,
  readHead,
  readLastArchive,
  readSealed,
  type SealedEntry,
} from '../../repositories/audit/activity-chain.ts'
import type { PaymentDeps } from '../deps.ts'
import { isHeadAuthentic, isSealedWith, isSignedWith } from './activity.ts'
import { type ArchivedEntry, readArchive, writeArchive, yieldTurn } from './archive-file.ts'
import { openKeptSigningKeys } from './kept-signing-keys.ts'

/** Clocks of processes differ, and one may have been wrong: this many further entries may show that the ones before are old. */
const extraRows = 10
/** Rows of one query. */
const rowsAtOnce = 200

/**
 * Moves the next `size` sealed entries to one file, if the last of them, or one sealed soon after, was made before a time. Returns how many it moved: `size` or 0.
 * The file is on the disk and was read again before the entries are deleted; a crash between the two leaves both, and the next run
 * writes the same file again.
 * @throws Error when an entry is not as it was written: it stays, for the check to report.
 */
export async function archiveEntries(
  { database, encryption, now }: Pick<PaymentDeps, 'database' | 'encryption' | 'now'>,
  folder: string,
  before: Date,
  size: number,
): Promise<number> {
  const { db } = database
  const last = await readLastArchive(db)
  const end = { seq: last?.last_seq ?? 0, hash: last?.last_hash ?? '' }
  const found = await readNext(db, last && end, size + extraRows)
  const isOld = ({ entry }: SealedEntry) => !entry || entry.created_at < before
  if (!found.slice(size - 1).some(isOld)) return 0
  const sealed = found.slice(0, size)
  const entries = await verified(db, encryption, sealed, end)
  const final = entries?.at(-1)?.seal
  if (!entries || !final) {
    throw new Error(
      `the audit log is not archived: after entry ${end.seq} it is not as it was written; see GET /admin/activity/verify`,
    )
  }
  const archive: ArchiveRow = {
    first_seq: end.seq + 1,
    last_seq: final.seq,
    last_hash: final.hash,
    key_ids: [...new Set(entries.map(({ entry }) => entry.key_id))],
    archived_at: now(),
  }
  await writeArchive(folder, archive, entries)
  const written = await readArchive(folder, archive)
  for (const [index, entry] of entries.entries()) {
    await yieldTurn()
    if (isDeepStrictEqual(written[index], entry)) continue
    throw new Error('an archive of the audit log did not read as it was written')
  }
  await database.transaction((trx) => moveToArchive(trx, archive))
  return entries.length
}

/** The next `count` seals with their entries. The driver parses the rows of one answer without a pause, so it gets few. */
async function readNext(
  db: Db,
  after: { seq: number; hash: string } | undefined,
  count: number,
): Promise<SealedEntry[]> {
  const found: SealedEntry[] = []
  while (found.length < count) {
    const rows = await readSealed(
      db,
      found.at(-1)?.seal ?? after,
      Math.min(rowsAtOnce, count - found.length),
    )
    if (rows.length === 0) break
    found.push(...rows)
  }
  return found
}

/** The entries, when each is as it was written and in its place; else undefined. */
async function verified(
  db: Db,
  encryption: Encryption,
  sealed: readonly SealedEntry[],
  end: { seq: number; hash: string },
): Promise<ArchivedEntry[] | undefined> {
  const head = await readHead(db)
  if (!head || !isHeadAuthentic(encryption, head)) return undefined
  const kept = await openKeptSigningKeys(db, encryption)
  const entries: ArchivedEntry[] = []
  let previous = end
  for (const { seal, entry } of sealed) {
    await yieldTurn()
    const key = entry && (encryption.signingKeyById(entry.key_id) ?? kept.get(entry.key_id))
    const follows = seal.seq === previous.seq + 1 && seal.previous_hash === previous.hash
    if (!key || !follows || seal.seq > head.seq) return undefined
    if (!isSignedWith(key, entry) || !isSealedWith(key, entry, seal)) return undefined
    entries.push({ seal, entry })
    previous = seal
  }
  return entries
}
