import { closeSync, constants, fstatSync, openSync, readSync, type Stats, statSync } from 'node:fs'
import { codeOf } from '../domain/error-code.ts'
import { type Reason, ReasonError } from '../texts/reason.ts'

/** Why a file is not read. `message` follows the name of the file: `is not a regular file`. */
export class GuardedFileError extends ReasonError {
  override readonly name = 'GuardedFileError'
  /** The code of the operating system, if the system refused. */
  readonly code: string | undefined

  constructor(why: Reason, cause?: unknown) {
    super(why, { cause })
    this.code = codeOf(cause)
  }
}

/**
 * Reads a file that a setting or a flow names; follows links. Refuses pipes, sockets, devices and folders: reading a
 * pipe would block the process, and a device may never end. Reads no more than the size of the file, so files that the
 * kernel generates (`/proc/self/environ` has size 0) are empty. `except` are paths that may not be read under any name.
 * Throws GuardedFileError.
 */
export function readGuardedFile(
  path: string,
  { maxBytes, except = [] }: { maxBytes: number; except?: readonly string[] },
): Buffer {
  // Also before opening: some devices act when they are opened.
  requireFile(attempt(() => statSync(path)))
  const file = attempt(() => openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)))
  try {
    const stats = attempt(() => fstatSync(file))
    requireFile(stats)
    if (except.some((other) => isSame(stats, other))) {
      throw new GuardedFileError({ code: 'SERVICE_SECRETS' })
    }
    if (stats.size > maxBytes) {
      throw new GuardedFileError({ code: 'LARGER_THAN', data: { most: maxBytes / 1024 } })
    }
    return attempt(() => readWhole(file, stats.size))
  } finally {
    closeSync(file)
  }
}

function attempt<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    const code = codeOf(error)
    if (code === undefined) throw error
    throw new GuardedFileError({ code: 'CANNOT_BE_READ', data: { code } }, error)
  }
}

function requireFile(stats: Stats): void {
  if (!stats.isFile()) throw new GuardedFileError({ code: 'IS_NOT_REGULAR' })
}

/** Also by a link, or by another path to its folder. */
function isSame({ dev, ino }: Stats, path: string): boolean {
  const other = statSync(path, { throwIfNoEntry: false })
  return other !== undefined && other.dev === dev && other.ino === ino
}

/** Shorter if the file was truncated meanwhile. */
function readWhole(file: number, size: number): Buffer {
  const bytes = Buffer.alloc(size)
  let length = 0
  while (length < size) {
    const read = readSync(file, bytes, length, size - length, length)
    if (read === 0) break
    length += read
  }
  return bytes.subarray(0, length)
}
