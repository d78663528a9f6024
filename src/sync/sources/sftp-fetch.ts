import { randomUUID } from 'node:crypto'
import { type FileHandle, open, unlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { changedMeanwhile } from './file-store.ts'
import type { SftpSession } from './sftp-session.ts'

/** Every server gives as much in one answer (draft-ietf-secsh-filexfer-02, section 3). */
const pieceBytes = 32 * 1024
/** Asked for at a time, so that a far server is waited for once and not for every piece: 2 MiB under way. */
const piecesAtOnce = 64

/**
 * A copy of an open file of a server, of which no name leads to it: it is gone with its handle, also when the process is killed.
 * Throws SourceError when the server has less of it than `size`.
 */
export async function fetchFile(
  session: SftpSession,
  { handle, path, size }: { handle: Buffer; path: string; size: number },
): Promise<FileHandle> {
  const copy = await unnamedFile()
  try {
    await copyPieces(session, { handle, path, size }, copy)
    return copy
  } catch (error) {
    await copy.close()
    throw error
  }
}

async function copyPieces(
  session: SftpSession,
  { handle, path, size }: { handle: Buffer; path: string; size: number },
  copy: FileHandle,
): Promise<void> {
  let next = 0
  const fetchPieces = async () => {
    const buffer = Buffer.alloc(pieceBytes)
    while (next < size) {
      const from = next
      const to = Math.min(size, from + pieceBytes)
      next = to
      for (let position = from; position < to; ) {
        const bytes = await session.ask<number>(path, (sftp, done) =>
          sftp.read(handle, buffer, 0, to - position, position, done),
        )
        if (bytes === 0) throw changedMeanwhile(path)
        await copy.write(buffer, 0, bytes, position)
        position += bytes
      }
    }
  }
  const lanes = Array.from({ length: Math.min(piecesAtOnce, Math.ceil(size / pieceBytes)) }, () =>
    fetchPieces().catch((error: unknown) => {
      // The others have no reason to go on.
      next = size
      throw error
    }),
  )
  // All of them have ended before the copy is closed.
  const ends = await Promise.allSettled(lanes)
  const failed = ends.find((end) => end.status === 'rejected')
  if (failed) throw failed.reason
}

async function unnamedFile(): Promise<FileHandle> {
  const path = join(tmpdir(), `tillbridge-${randomUUID()}`)
  const file = await open(path, 'wx+', 0o600)
  await unlink(path)
  return file
}
