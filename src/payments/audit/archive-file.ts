import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import { z } from 'zod'
import { createTurns } from '../../db/event-loop-pauses.ts'
import { writeWhole } from '../../files/durable-files.ts'
import type { ArchiveRow, SealRow } from '../../repositories/audit/activity-chain.ts'
import type { ActivityRow } from '../../repositories/audit/activity-queries.ts'

export type ArchivedEntry = { seal: SealRow; entry: ActivityRow }

/** `message` says what is wrong with which file. */
export class ArchiveFileError extends Error {}

/** Entries are checked and parsed on the thread that serves the tills: charges come first after 3 ms. */
export const yieldTurn = createTurns(3)

/** A thousand entries take some 600 KB. A file of more than this was not written here. */
const bytesAtMost = 256 * 1024 * 1024

const place = z.number().int()
const line = z.strictObject({
  seal: z.strictObject({
    seq: place,
    entry_id: z.string(),
    previous_hash: z.string(),
    hash: z.string(),
  }),
  entry: z.strictObject({
    seq: place,
    id: z.string(),
    client_name: z.string().nullable(),
    ip_address: z.string().nullable(),
    action: z.string(),
    resource_type: z.string(),
    resource_id: z.string().nullable(),
    status: z.enum(['success', 'failed']),
    error_message: z.string().nullable(),
    metadata: z.record(z.string(), z.unknown()),
    duration_ms: z.number(),
    created_at: z.iso.datetime().transform((text) => new Date(text)),
    key_id: z.string(),
    previous_hash: z.string().nullable(),
    hash: z.string(),
  }),
}) satisfies z.ZodType<ArchivedEntry>

/** The name tells the places and the last seal, so files of two logs never have the same name. */
function archiveName({
  first_seq,
  last_seq,
  last_hash,
}: Pick<ArchiveRow, 'first_seq' | 'last_seq' | 'last_hash'>): string {
  const wide = (seq: number) => String(seq).padStart(12, '0')
  // A record that this service has not written may hold anything.
  const seal = last_hash.replaceAll(/[^0-9a-f]/g, '').slice(0, 12)
  return `audit-${wide(first_seq)}-${wide(last_seq)}-${seal}.jsonl.gz`
}

/** Writes JSON lines in gzip: an entry with its seal each. */
export async function writeArchive(
  folder: string,
  archive: ArchiveRow,
  entries: readonly ArchivedEntry[],
): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const lines: string[] = []
  for (const one of entries) {
    await yieldTurn()
    lines.push(`${JSON.stringify(one)}\n`)
  }
  await writeWhole(join(folder, archiveName(archive)), await promisify(gzip)(lines.join('')))
}

/**
 * The entries of an archive in their order, each with the place that the record gives it; signatures and seals are not checked.
 * `folder` is undefined where none is set.
 * @throws ArchiveFileError when the file is not there or holds anything else.
 */
export async function readArchive(
  folder: string | undefined,
  archive: ArchiveRow,
): Promise<ArchivedEntry[]> {
  const name = archiveName(archive)
  if (folder === undefined) {
    throw new ArchiveFileError(
      `the archive file ${name} is needed, and AUDIT_ARCHIVE_DIR is not set`,
    )
  }
  const entries = await readLines(join(folder, name), name)
  const count = archive.last_seq - archive.first_seq + 1
  const isInOrder = entries.every(
    ({ seal, entry }, index) =>
      seal.seq === archive.first_seq + index && seal.entry_id === entry.id,
  )
  if (entries.length === count && isInOrder) return entries
  throw new ArchiveFileError(
    `the archive file ${name} does not hold entries ${archive.first_seq} to ${archive.last_seq}`,
  )
}

async function readLines(path: string, name: string): Promise<ArchivedEntry[]> {
  try {
    const packed = await readFile(path)
    const text = await promisify(gunzip)(packed, { maxOutputLength: bytesAtMost })
    const lines = text.toString('utf8').split('\n')
    if (lines.pop() !== '') throw new SyntaxError('the last line has no end')
    const entries: ArchivedEntry[] = []
    for (const one of lines) {
      await yieldTurn()
      entries.push(line.parse(JSON.parse(one)))
    }
    return entries
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT'
    throw new ArchiveFileError(
      `the archive file ${name} ${isMissing ? 'is missing' : 'cannot be read or is damaged'}`,
      { cause: error },
    )
  }
}
