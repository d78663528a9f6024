import { SourceError } from '../types.ts'

/** As much of an open file as reading needs: of the disk, or of a server. */
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
  /** When its content changed last, in nanoseconds by the clock of where it lies. */
  changedNs: bigint
  /** Since when, in milliseconds of our clock, nothing about it has changed, as far as that is known. */
  stillSinceMs: number
  /** The same text as long as it is the same file with the same content, as far as its file system tells. */
  mark: string
}

export type HeldFile = OpenFile & {
  /** Throws SourceError when the file is not the one that was found any more: changed in place, or replaced. */
  checkSame(): Promise<void>
  close(): Promise<void>
}

/**
 * What is done with the files of a source while it is read once, and when they are put away. All reject with the errors of
 * where the files lie, or SourceError.
 */
export type FileVisit = {
  /** The files of the pattern, oldest change first: of several that tell of one item the later one is right. */
  find(): Promise<FoundFile[]>
  /** Undefined for one that is gone, or is no regular file. */
  look(path: string): Promise<FoundFile | undefined>
  open(file: FoundFile): Promise<HeldFile>
  /**
   * Moves a file that was read into the folder `archive` beside it, as `name.20261121T090000123Z.ext`. Nothing that is there
   * is overwritten. Another one that took its place in the moment before is put back, since nobody has read it.
   */
  archive(file: FoundFile, now: Date): Promise<void>
  /** It is fine when there is none. */
  remove(path: string): Promise<void>
  leave(): Promise<void>
}

/** Where the files of a source lie. */
export type FileStore = {
  /** What messages begin with. */
  name: string
  pattern: FilePattern
  /** What no message may show. */
  secrets: readonly string[]
  /** Another name in the folder of a file. */
  beside(path: string, name: string): string
  visit(signal: AbortSignal): FileVisit
}

/** Where a source finds its files: `folder` and the name, or a pattern of names. */
export type FilePattern = { folder: string; name: string; isGlob: boolean }

/** Throws SourceError when a `*` stands elsewhere than in the name of the file. */
export function filePattern(folder: string, name: string): FilePattern {
  if (folder.includes('*')) {
    throw new SourceError('path: a * can only stand in the name of the file, not in its folder')
  }
  return { folder, name, isGlob: name.includes('*') }
}

/**
 * Makes the test for the names that a pattern stands for. A `*` stands for any characters, but not for the dot at the beginning
 * of a hidden file.
 */
export function namesMatching(pattern: string): (name: string) => boolean {
  const isFitting = inOrder(pattern.split('*'))
  return (name) => isFitting(name) && (pattern.startsWith('.') || !name.startsWith('.'))
}

/**
 * Makes the test for names that consist of the parts in their order, with at least `apart` characters between each and the next.
 * Not by a regular expression, neither ours nor that of `path.matchesGlob`: with four stars a name of 250 letters takes a second.
 */
export function inOrder(parts: readonly string[], apart = 0): (name: string) => boolean {
  const [first = '', ...others] = parts
  const last = others.pop()
  return (name) => {
    if (last === undefined) return name === first
    if (!name.startsWith(first) || !name.endsWith(last)) return false
    let end = first.length
    for (const part of others) {
      const at = name.indexOf(part, end + apart)
      if (at === -1) return false
      end = at + part.length
    }
    return name.length - last.length >= end + apart
  }
}

/** Both are the same file with the same content, as far as its file system tells. */
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

/** A link could lead anywhere, and a pipe would be waited for. */
export function notRegular(path: string): SourceError {
  return new SourceError(`${path} is not a regular file (links are not followed)`)
}

export function changedMeanwhile(path: string): SourceError {
  return new SourceError(`${path} changed while it was read; it is read again by the next poll`)
}

/** Where the name of a file that would have to be put back is taken once more. */
export function leftUnread(path: string, target: string): SourceError {
  return new SourceError(
    `${path} was replaced twice while it was put away; the one in between was not read and is ${target} now`,
  )
}

/** The names under which a file is archived, one after the other until one is free. */
export function* archiveNames(stem: string, extension: string, now: Date): Generator<string> {
  const stamp = now.toISOString().replace(/[-:.]/g, '')
  yield `${stem}.${stamp}${extension}`
  for (let count = 2; count <= 1_000; count += 1) yield `${stem}.${stamp}-${count}${extension}`
}

export const archiveFolder = 'archive'
