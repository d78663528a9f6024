import { randomUUID } from 'node:crypto'
import { type FileHandle, open, unlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { changedMeanwhile } from './file-store.ts'
import type { SftpSession } from './sftp-session.ts'

/** Every server returns as many bytes in one response (draft-ietf-secsh-filexfer-02, section 3). */
const pieceBytes = 32 * 1024
/** Requests in flight: 2 MiB. Without them, each piece would cost a round trip. */
const piecesAtOnce = 64

/**
 * Copies an open file of a server into a file without a name. The copy disappears with its handle, even when the process is
 * killed. Throws SourceError when the server has fewer than `size` bytes.
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
        const bytes = await session.request<number>(path, (sftp, done) =>
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
      // Stops the other requests after a failure.
      next = size
      throw error
    }),
  )
  // The copy is closed only after all requests have ended.
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
