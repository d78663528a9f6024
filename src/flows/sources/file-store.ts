import type { FilePattern } from '../definition/file-pattern.ts'
import { SourceError } from '../types.ts'

/** The part of an open file that parsers need, on a disk or a server. */
export type OpenFile = {
  read(
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
  ): Promise<{ bytesRead: number; buffer: Buffer }>
}

export type FoundFile = {
  path: string
  size: number
  /** Last change of the content, in nanoseconds, by the clock of the file's machine. */
  changedNs: bigint
  /** Time since which the file is known to be unchanged, in milliseconds of our clock. */
  unchangedSinceMs: number
  /** Equal for the same file with the same content, as far as the file system reports it. */
  mark: string
}

export type OpenedFile = OpenFile & {
  /** Throws SourceError when the file was changed in place or replaced since it was found. */
  checkSame(): Promise<void>
  close(): Promise<void>
}

/**
 * Access to the files of a source during one read, and while read files are archived or deleted. All methods reject with the
 * file system's or server's errors, or with SourceError.
 */
export type FileAccess = {
  /** The files of the pattern, oldest change first: a newer file has the later state of an item. */
  find(): Promise<FoundFile[]>
  /** Undefined when the path does not exist or is not a regular file. */
  stat(path: string): Promise<FoundFile | undefined>
  open(file: FoundFile): Promise<OpenedFile>
  /**
   * Moves a read file into the folder `archive` beside it, as `name.20261121T090000123Z.ext`. Existing files are not
   * overwritten. A file that replaced the read one just before the move is moved back, because it is unread.
   */
  archive(file: FoundFile, now: Date): Promise<void>
  /** A missing file is not an error. */
  remove(path: string): Promise<void>
  close(): Promise<void>
}

/** Where the files of a source are: this machine or a server. */
export type FileStore = {
  /** Prefix of messages. */
  name: 'file' | 'sftp'
  pattern: FilePattern
  /** Texts that no message may contain. */
  secrets: readonly string[]
  /** The path of another name in the same folder. */
  beside(path: string, name: string): string
  access(signal: AbortSignal): FileAccess
}

/** Whether both are the same file with the same content, as far as the file system reports it. */
export function isSameFile(left: FoundFile, right: FoundFile): boolean {
  return left.mark === right.mark
}

export function oldestFirst(files: readonly FoundFile[]): FoundFile[] {
  return [...files].sort(
    (left, right) =>
      Number(left.changedNs - right.changedNs) ||
      left.path.localeCompare(right.path, 'en', { numeric: true }),
  )
}

/** A link could lead anywhere, and opening a pipe blocks. */
export function notRegular(path: string): SourceError {
  return new SourceError({ code: 'NOT_REGULAR', data: { path } })
}

export function changedMeanwhile(path: string): SourceError {
  return new SourceError({ code: 'CHANGED_MEANWHILE', data: { path } })
}

/** The file cannot be moved back, because its name is used again. */
export function leftUnread(path: string, target: string): SourceError {
  return new SourceError({ code: 'REPLACED_TWICE', data: { path, target } })
}

/** Candidate names for the archived file, until a free one is found. */
export function* archiveNames(stem: string, extension: string, now: Date): Generator<string> {
  const stamp = now.toISOString().replace(/[-:.]/g, '')
  yield `${stem}.${stamp}${extension}`
  for (let count = 2; count <= 1_000; count += 1) yield `${stem}.${stamp}-${count}${extension}`
}

export const archiveFolder = 'archive'
