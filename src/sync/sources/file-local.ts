import { type BigIntStats, constants } from 'node:fs'
import { link, lstat, mkdir, open, readdir, rename, unlink } from 'node:fs/promises'
import { basename, dirname, join, parse, resolve } from 'node:path'
import { codeOf } from './failures.ts'
import {
  archiveFolder,
  archiveNames,
  changedMeanwhile,
  type FileStore,
  type FileVisit,
  type FoundFile,
  filePattern,
  isSameFile,
  leftUnread,
  namesMatching,
  notRegular,
  oldestFirst,
} from './file-store.ts'

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants

/** Files of this machine. Throws SourceError for a pattern that is none. */
export function localFiles(path: string): FileStore {
  const whole = resolve(path)
  const pattern = filePattern(dirname(whole), basename(whole))
  const visit: FileVisit = {
    async find() {
      const { folder, name, isGlob } = pattern
      const names = isGlob ? (await readdir(folder)).filter(namesMatching(name)) : [name]
      const found: FoundFile[] = []
      for (const one of names) {
        const at = join(folder, one)
        const stats = await statsOf(at)
        if (!stats || (isGlob && stats.isDirectory())) continue
        if (!stats.isFile()) throw notRegular(at)
        found.push(asFound(at, stats))
      }
      return oldestFirst(found)
    },
    async look(at) {
      const stats = await statsOf(at)
      return stats?.isFile() ? asFound(at, stats) : undefined
    },
    async open(found) {
      const file = await open(found.path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
      return {
        read: (buffer, offset, length, position) => file.read(buffer, offset, length, position),
        async checkSame() {
          const opened = await file.stat({ bigint: true })
          const named = await lstat(found.path, { bigint: true })
          const isSame = [opened, named].every((stats) =>
            isSameFile(asFound(found.path, stats), found),
          )
          if (!isSame) throw changedMeanwhile(found.path)
        },
        close: () => file.close(),
      }
    },
    async archive(file, now) {
      const folder = join(dirname(file.path), archiveFolder)
      await mkdir(folder, { recursive: true })
      const target = await reserve(folder, file.path, now)
      try {
        await rename(file.path, target)
      } catch (error) {
        await unlink(target)
        throw error
      }
      const moved = await statsOf(target)
      if (moved && !isSameFile(asFound(file.path, moved), file)) await putBack(target, file.path)
    },
    async remove(at) {
      try {
        await unlink(at)
      } catch (error) {
        if (codeOf(error) !== 'ENOENT') throw error
      }
    },
    leave: async () => undefined,
  }
  return {
    name: 'file source',
    pattern,
    secrets: [],
    beside: (at, name) => join(dirname(at), name),
    visit: () => visit,
  }
}

function asFound(path: string, stats: BigIntStats): FoundFile {
  return {
    path,
    size: Number(stats.size),
    changedNs: stats.mtimeNs,
    // The time of the last change of anything about the file, which no program can set back.
    stillSinceMs: Number(stats.ctimeMs),
    mark: [stats.dev, stats.ino, stats.size, stats.mtimeNs].join(':'),
  }
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

/** By a second name, since a rename would overwrite what may be there by now. */
async function putBack(target: string, path: string): Promise<void> {
  try {
    await link(target, path)
  } catch (error) {
    if (codeOf(error) === 'EEXIST') throw leftUnread(path, target)
    throw error
  }
  await unlink(target)
}

/** A new empty file, over which ours is moved: the only way to move that cannot overwrite another. */
async function reserve(folder: string, path: string, now: Date): Promise<string> {
  const { name, ext } = parse(path)
  let failure: unknown
  for (const one of archiveNames(name, ext, now)) {
    const target = join(folder, one)
    try {
      const made = await open(target, 'wx')
      await made.close()
      return target
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error
      failure = error
    }
  }
  throw failure
}
