import { constants } from 'node:fs'
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { type Fence, fencedPath, requireSamePlace } from '../../files/fence.ts'
import { GuardedFileError } from '../../files/read-regular-file.ts'
import type { FirstLine } from './file-lines.ts'

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR } = constants
const chunkBytes = 65_536

type LineFormat = {
  /** The line end; it appears nowhere else. */
  end: string
  /** Whether an incomplete line that starts like this (up to 64 characters) may be ours. */
  isOurs: (rest: string) => boolean
}

/**
 * Appends `text`, which ends a line, and waits for the disk: a confirmed line survives a power cut. First it removes an
 * incomplete line that a crash left, because that line was never confirmed. An incomplete line of another program gets a
 * line end instead.
 *
 * Rejects with the system error, or with GuardedFileError for a file that is not regular. A failed write may leave an
 * incomplete line.
 */
export async function appendLines(
  path: string,
  text: string,
  format: LineFormat,
  fence: Fence,
): Promise<void> {
  const file = await openForAppend(path, fence)
  try {
    const lineEnd = (await endsUnfinished(file, format)) ? format.end : ''
    await file.appendFile(lineEnd + text)
    await file.datasync()
  } finally {
    await file.close()
  }
}

/** Opens the file for each write: lines must not go into a file that log rotation has renamed. */
async function openForAppend(path: string, fence: Fence): Promise<FileHandle> {
  // A link in place of the file could lead anywhere.
  const flags = O_RDWR | O_APPEND | O_NOFOLLOW
  try {
    return await openRegular(path, flags, fence)
  } catch (error) {
    if (!isMissing(error)) throw error
  }
  await mkdir(dirname(await fencedPath(path, fence)), { recursive: true })
  const real = await fencedPath(path, fence)
  const file = await open(real, flags | O_CREAT, 0o640)
  try {
    await requireSamePlace(path, await file.stat(), fence)
    await syncFolder(dirname(real))
  } catch (error) {
    await file.close()
    throw error
  }
  return file
}

/** Opening a pipe blocks, and occupies a thread that other files need. */
async function openRegular(path: string, flags: number, fence: Fence): Promise<FileHandle> {
  const file = await open(await fencedPath(path, fence), flags | O_NONBLOCK)
  try {
    const stats = await file.stat()
    if (!stats.isFile()) throw new GuardedFileError({ code: 'IS_NOT_REGULAR' })
    await requireSamePlace(path, stats, fence)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

/** A new name survives a power cut only after its folder is synced too. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, O_RDONLY)
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

/** Removes our incomplete line. Returns true when the file ends with an incomplete line of another program. */
async function endsUnfinished(file: FileHandle, format: LineFormat): Promise<boolean> {
  const { size } = await file.stat()
  const complete = await endOfLastLine(file, size, Buffer.from(format.end))
  if (complete === size) return false
  const rest = await readAt(file, complete, Math.min(64, size - complete))
  if (!format.isOurs(rest.toString('latin1'))) return true
  await file.truncate(complete)
  return false
}

/** The position after the last complete line; 0 when there is none. */
async function endOfLastLine(file: FileHandle, size: number, end: Buffer): Promise<number> {
  if ((await readAt(file, Math.max(0, size - end.length), end.length)).equals(end)) return size
  for (let position = size; position > 0; ) {
    const start = Math.max(0, position - chunkBytes)
    // Chunks overlap by the length of the line end, which may be split between two chunks.
    const chunk = await readAt(file, start, position + end.length - 1 - start)
    const at = chunk.lastIndexOf(end)
    if (at >= 0) return start + at + end.length
    position = start
  }
  return 0
}

/** At most 64 KiB; undefined when the file is missing or empty. */
export async function readFirstLine(
  path: string,
  end: string,
  fence: Fence,
): Promise<FirstLine | undefined> {
  let file: FileHandle
  try {
    file = await openRegular(path, O_RDONLY | O_NOFOLLOW, fence)
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
  try {
    const start = await readAt(file, 0, chunkBytes)
    if (start.length === 0) return undefined
    const at = start.indexOf(end)
    const text = (at < 0 ? start : start.subarray(0, at)).toString('utf8')
    return { text, isComplete: at >= 0 }
  } finally {
    await file.close()
  }
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position)
  return buffer.subarray(0, bytesRead)
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}
