import { constants } from 'node:fs'
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { GuardedFileError } from '../../files/guarded-file.ts'
import type { FirstLine } from './file-lines.ts'

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR } = constants
const chunkBytes = 65_536

/** Appends lines to files so that what was acknowledged survives a power cut. */
export type Appender = {
  /** Runs pieces of work about one file one after the other. */
  inTurn<T>(path: string, work: () => Promise<T>): Promise<T>
  /**
   * Writes `text`, which ends a line, and waits for the disk. What a crash left behind the last complete line is cut off
   * before: nobody was told that it was written. A rest that is not ours gets a line end instead. Rejects with the system
   * error, or GuardedFileError for what is no regular file; what was written of `text` by then is such a rest.
   */
  append(path: string, text: string): Promise<void>
  /** Up to 64 KiB; undefined when the file is missing or empty. */
  firstLine(path: string): Promise<FirstLine | undefined>
  /** Resolves when no work is left. */
  idle(): Promise<void>
}

export type LineFormat = {
  /** What ends a line, and stands nowhere else. */
  end: string
  /** Whether a rest that begins like this (up to 64 characters) can be a torn line of ours. */
  isOurs: (rest: string) => boolean
}

export function createAppender(format: LineFormat): Appender {
  const end = Buffer.from(format.end)
  const turns = new Map<string, Promise<unknown>>()

  const inTurn = <T>(path: string, work: () => Promise<T>): Promise<T> => {
    const turn = (turns.get(path) ?? Promise.resolve()).then(work)
    const settled = turn
      .catch(() => undefined)
      .then(() => {
        if (turns.get(path) === settled) turns.delete(path)
      })
    turns.set(path, settled)
    return turn
  }

  return {
    inTurn,
    append: async (path, text) => {
      const file = await openForAppend(path)
      try {
        const glue = (await endsUnfinished(file, format)) ? format.end : ''
        await file.appendFile(glue + text)
        await file.datasync()
      } finally {
        await file.close()
      }
    },
    firstLine: (path) => readFirstLine(path, end),
    idle: async () => {
      while (turns.size > 0) await Promise.all(turns.values())
    },
  }
}

/** Opened anew each time: a file that was moved away by a log rotation must not swallow lines. */
async function openForAppend(path: string): Promise<FileHandle> {
  // A link in place of the file could lead anywhere.
  const flags = O_RDWR | O_APPEND | O_NOFOLLOW
  try {
    return await openRegular(path, flags)
  } catch (error) {
    if (!isMissing(error)) throw error
  }
  await mkdir(dirname(path), { recursive: true })
  const file = await open(path, flags | O_CREAT, 0o640)
  try {
    await syncFolder(dirname(path))
  } catch (error) {
    await file.close()
    throw error
  }
  return file
}

/** A pipe would be waited for, with a thread that other files need. */
async function openRegular(path: string, flags: number): Promise<FileHandle> {
  const file = await open(path, flags | O_NONBLOCK)
  try {
    if (!(await file.stat()).isFile()) throw new GuardedFileError('is not a regular file')
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

/** A new name is only safe once its folder is on the disk too. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, O_RDONLY)
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

/** Cuts off a torn line of ours; true when the file ends in a line of somebody else that lacks its end. */
async function endsUnfinished(file: FileHandle, format: LineFormat): Promise<boolean> {
  const { size } = await file.stat()
  const complete = await endOfLastLine(file, size, Buffer.from(format.end))
  if (complete === size) return false
  const rest = await readAt(file, complete, Math.min(64, size - complete))
  if (!format.isOurs(rest.toString('latin1'))) return true
  await file.truncate(complete)
  return false
}

/** The position behind the last complete line; 0 when there is none. */
async function endOfLastLine(file: FileHandle, size: number, end: Buffer): Promise<number> {
  if ((await readAt(file, Math.max(0, size - end.length), end.length)).equals(end)) return size
  for (let position = size; position > 0; ) {
    const start = Math.max(0, position - chunkBytes)
    // Chunks overlap by the length of the line end, which may lie on a border.
    const chunk = await readAt(file, start, position + end.length - 1 - start)
    const at = chunk.lastIndexOf(end)
    if (at >= 0) return start + at + end.length
    position = start
  }
  return 0
}

async function readFirstLine(path: string, end: Buffer): Promise<FirstLine | undefined> {
  let file: FileHandle
  try {
    file = await openRegular(path, O_RDONLY | O_NOFOLLOW)
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
