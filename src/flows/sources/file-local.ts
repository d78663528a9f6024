import { type BigIntStats, constants } from 'node:fs'
import { link, lstat, mkdir, open, readdir, rename, unlink } from 'node:fs/promises'
import { basename, dirname, join, parse, resolve } from 'node:path'
import { codeOf } from '../../domain/error-code.ts'
import { type Fence, fencedPath, requireSamePlace } from '../../files/fence.ts'
import { filePattern, namesMatching } from '../definition/file-pattern.ts'
import {
  archiveFolder,
  archiveNames,
  changedMeanwhile,
  type FileAccess,
  type FileStore,
  type FoundFile,
  isSameFile,
  leftUnread,
  notRegular,
  oldestFirst,
} from './file-store.ts'

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants

/** Files of this machine, within the fence. Every access follows the links of the path again. */
export function localFiles(path: string, fence: Fence): FileStore {
  const whole = resolve(path)
  const pattern = filePattern(dirname(whole), basename(whole))
  const realPath = (at: string) => fencedPath(at, fence)
  const access: FileAccess = {
    async find() {
      const { folder, name, isGlob } = pattern
      const realFolder = dirname(await realPath(whole))
      const names = isGlob ? (await readdir(realFolder)).filter(namesMatching(name)) : [name]
      const found: FoundFile[] = []
      for (const one of names) {
        const at = join(folder, one)
        const stats = await statsOf(join(realFolder, one))
        if (!stats || (isGlob && stats.isDirectory())) continue
        if (!stats.isFile()) throw notRegular(at)
        found.push(asFound(at, stats))
      }
      return oldestFirst(found)
    },
    async stat(at) {
      const stats = await statsOf(await realPath(at))
      return stats?.isFile() ? asFound(at, stats) : undefined
    },
    async open(found) {
      const file = await open(await realPath(found.path), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
      try {
        await requireSamePlace(found.path, await file.stat(), fence)
      } catch (error) {
        await file.close()
        throw error
      }
      return {
        read: (buffer, offset, length, position) => file.read(buffer, offset, length, position),
        async checkSame() {
          const opened = await file.stat({ bigint: true })
          const named = await lstat(await realPath(found.path), { bigint: true })
          const isSame = [opened, named].every((stats) =>
            isSameFile(asFound(found.path, stats), found),
          )
          if (!isSame) throw changedMeanwhile(found.path)
        },
        close: () => file.close(),
      }
    },
    async archive(file, now) {
      const from = await realPath(file.path)
      const folder = join(dirname(from), archiveFolder)
      await mkdir(folder, { recursive: true })
      // The folder may be a link to another place.
      const archived = dirname(await realPath(join(folder, basename(from))))
      const target = await reserve(archived, from, now)
      try {
        await rename(from, target)
      } catch (error) {
        await unlink(target)
        throw error
      }
      const moved = await statsOf(target)
      if (moved && !isSameFile(asFound(file.path, moved), file)) await putBack(target, from)
    },
    async remove(at) {
      try {
        await unlink(await realPath(at))
      } catch (error) {
        if (codeOf(error) !== 'ENOENT') throw error
      }
    },
    close: async () => undefined,
  }
  return {
    name: 'file',
    pattern,
    secrets: [],
    beside: (at, name) => join(dirname(at), name),
    access: () => access,
  }
}

function asFound(path: string, stats: BigIntStats): FoundFile {
  return {
    path,
    size: Number(stats.size),
    changedNs: stats.mtimeNs,
    // The change time of the inode: no program can set it back.
    unchangedSinceMs: Number(stats.ctimeMs),
    mark: [stats.dev, stats.ino, stats.size, stats.mtimeNs].join(':'),
  }
}

/** Undefined when the file does not exist. */
async function statsOf(path: string): Promise<BigIntStats | undefined> {
  try {
    return await lstat(path, { bigint: true })
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Uses a hard link, because a rename would overwrite a new file of that name. */
async function putBack(target: string, path: string): Promise<void> {
  try {
    await link(target, path)
  } catch (error) {
    if (codeOf(error) === 'EEXIST') throw leftUnread(path, target)
    throw error
  }
  await unlink(target)
}

/** Creates an empty file as the target of the move. No other kind of move is safe against overwriting. */
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
