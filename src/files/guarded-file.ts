import { closeSync, constants, fstatSync, openSync, readSync, type Stats, statSync } from 'node:fs'

/** Why a file is not read. `message` follows the name of the file: `is not a regular file`. */
export class GuardedFileError extends Error {
  /** Of the operating system, when it was the one to refuse. */
  readonly code: string | undefined

  constructor(message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'GuardedFileError'
    this.code =
      cause instanceof Error && 'code' in cause && typeof cause.code === 'string'
        ? cause.code
        : undefined
  }
}

/**
 * The bytes of a file that a setting or a flow names; links are followed. Pipes, sockets, devices and folders are refused
 * without being opened for good: one would hold up the whole process until somebody writes, another never ends. No more is
 * read than the file says it has, so what the kernel makes up on reading (`/proc/self/environ` says 0) counts as empty.
 * `except` are paths that may not be read under any name. Throws GuardedFileError.
 */
export function readGuardedFile(
  path: string,
  { maxBytes, except = [] }: { maxBytes: number; except?: readonly string[] },
): Buffer {
  // Before it is opened too, since opening some devices already does something.
  requireFile(attempt(() => statSync(path)))
  const file = attempt(() => openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)))
  try {
    const stats = attempt(() => fstatSync(file))
    requireFile(stats)
    if (except.some((other) => isSame(stats, other))) {
      throw new GuardedFileError('holds secrets of the service itself')
    }
    if (stats.size > maxBytes) throw new GuardedFileError(`is larger than ${maxBytes / 1024} KiB`)
    return attempt(() => readWhole(file, stats.size))
  } finally {
    closeSync(file)
  }
}

function attempt<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    const failed = new GuardedFileError('cannot be read', error)
    if (failed.code === undefined) throw error
    throw new GuardedFileError(`cannot be read (${failed.code})`, error)
  }
}

function requireFile(stats: Stats): void {
  if (!stats.isFile()) throw new GuardedFileError('is not a regular file')
}

/** Whatever its name: by a link, or by another path to its folder. */
function isSame({ dev, ino }: Stats, path: string): boolean {
  const other = statSync(path, { throwIfNoEntry: false })
  return other !== undefined && other.dev === dev && other.ino === ino
}

/** Shorter when the file was cut meanwhile. */
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
