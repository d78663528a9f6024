import type { BigIntStats } from 'node:fs'
import { lstat, readdir } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { SourceError } from '../types.ts'
import { codeOf } from './failures.ts'

export type FoundFile = { path: string; stats: BigIntStats }

/** Where a source finds its files: `folder` and the name, or a pattern of names. */
export type FilePattern = { folder: string; name: string; isGlob: boolean }

/** Throws SourceError when a `*` stands elsewhere than in the name of the file. */
export function filePattern(path: string): FilePattern {
  const whole = resolve(path)
  const pattern = { folder: dirname(whole), name: basename(whole) }
  if (pattern.folder.includes('*')) {
    throw new SourceError('path: a * can only stand in the name of the file, not in its folder')
  }
  return { ...pattern, isGlob: pattern.name.includes('*') }
}

/**
 * The files of a pattern, oldest change first: of several that tell of one item the later one is right. A `*` stands for
 * any characters, but not for the dot at the beginning of a hidden file; folders are left out. Rejects with the errors of
 * the operating system, or SourceError for what is no file.
 */
export async function findFiles(pattern: FilePattern): Promise<FoundFile[]> {
  const { folder, name, isGlob } = pattern
  const names = isGlob ? (await readdir(folder)).filter(namesMatching(name)) : [name]
  const found: FoundFile[] = []
  for (const one of names) {
    const path = join(folder, one)
    const stats = await statsOf(path)
    if (!stats || (isGlob && stats.isDirectory())) continue
    if (!stats.isFile()) {
      // A link could lead anywhere, and a pipe would be waited for.
      throw new SourceError(`${path} is not a regular file (links are not followed)`)
    }
    found.push({ path, stats })
  }
  return found.sort(
    (left, right) =>
      Number(left.stats.mtimeNs - right.stats.mtimeNs) ||
      left.path.localeCompare(right.path, 'en', { numeric: true }),
  )
}

/** Undefined for one that is gone. */
async function statsOf(path: string): Promise<BigIntStats | undefined> {
  try {
    return await lstat(path, { bigint: true })
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Makes the test for the names that a pattern stands for. */
export function namesMatching(pattern: string): (name: string) => boolean {
  const parts = pattern.split('*').map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
  const expression = new RegExp(`^${parts.join('.*')}$`, 's')
  return (name) => expression.test(name) && (pattern.startsWith('.') || !name.startsWith('.'))
}

/** Whether both are the same file with the same content, as far as the file system tells. */
export function isSameFile(left: BigIntStats, right: BigIntStats): boolean {
  return (
    left.dev === right.dev &&
    left.ino === right.ino &&
    left.size === right.size &&
    left.mtimeNs === right.mtimeNs
  )
}
