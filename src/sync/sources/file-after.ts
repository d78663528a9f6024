import { lstat, mkdir, open, rename, unlink } from 'node:fs/promises'
import { dirname, join, parse } from 'node:path'
import { codeOf } from './failures.ts'
import { type FoundFile, isSameFile } from './file-list.ts'

const archiveFolder = 'archive'
const maxNames = 1_000

/**
 * Moves a file that was read into the folder `archive` beside it, as `name.20261121T090000123Z.ext`. Nothing that is
 * there is overwritten. Answers false when the file is not the one that was read any more: that one stays for the next
 * poll. Rejects with the errors of the operating system.
 */
export async function archiveFile(file: FoundFile, now: Date): Promise<boolean> {
  if (!(await isStillThere(file))) return false
  const folder = join(dirname(file.path), archiveFolder)
  await mkdir(folder, { recursive: true })
  const target = await reserve(folder, file.path, now)
  try {
    await rename(file.path, target)
  } catch (error) {
    await unlink(target)
    throw error
  }
  return true
}

/** Deletes a file that was read; as archiveFile otherwise. */
export async function deleteFile(file: FoundFile): Promise<boolean> {
  if (!(await isStillThere(file))) return false
  await unlink(file.path)
  return true
}

async function isStillThere({ path, stats }: FoundFile): Promise<boolean> {
  try {
    return isSameFile(await lstat(path, { bigint: true }), stats)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false
    throw error
  }
}

/** A new empty file, over which ours is moved: the only way to move that cannot overwrite another. */
async function reserve(folder: string, path: string, now: Date): Promise<string> {
  const { name, ext } = parse(path)
  const stamp = now.toISOString().replace(/[-:.]/g, '')
  for (let count = 1; ; count += 1) {
    const target = join(folder, `${name}.${stamp}${count === 1 ? '' : `-${count}`}${ext}`)
    try {
      const made = await open(target, 'wx')
      await made.close()
      return target
    } catch (error) {
      if (codeOf(error) !== 'EEXIST' || count >= maxNames) throw error
    }
  }
}
