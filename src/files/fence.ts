import type { Stats } from 'node:fs'
import { lstat, realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve, sep } from 'node:path'
import { GuardedFileError } from './read-regular-file.ts'

/** Where files may be. Paths are compared by what they really are, at each access. */
export type Fence = {
  /** The folder that all files must be in; undefined for any. */
  inside: string | undefined
  /** Folders that no file may be in. */
  outside: readonly string[]
}

/**
 * The path of a file with all links in its folders followed. The last name is kept as it is, and may not exist.
 * @throws GuardedFileError when the place is not allowed, and the error of the system.
 */
export async function fencedPath(path: string, { inside, outside }: Fence): Promise<string> {
  const whole = resolve(path)
  const real = join(await realFolder(dirname(whole)), basename(whole))
  if (inside !== undefined && !isIn(real, await realFolder(resolve(inside)))) {
    throw new GuardedFileError({ code: 'OUTSIDE_FOLDER' })
  }
  for (const folder of outside) {
    if (isIn(real, await realFolder(resolve(folder)))) {
      throw new GuardedFileError({ code: 'PLACE_OF_SERVICE' })
    }
  }
  return real
}

/**
 * Checks that an open file is the one that its path means now. A folder of the path may have been replaced by a link
 * between the check and the opening.
 * @throws GuardedFileError.
 */
export async function requireSamePlace(
  path: string,
  opened: Pick<Stats, 'dev' | 'ino'>,
  fence: Fence,
): Promise<void> {
  const named = await lstat(await fencedPath(path, fence))
  if (named.dev === opened.dev && named.ino === opened.ino) return
  throw new GuardedFileError({ code: 'OUTSIDE_FOLDER' })
}

/** Whether a path is the folder or in it. Both are absolute. */
export function isIn(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep)
}

/** The real path of a folder; of one that does not exist yet by the nearest folder above that does. */
async function realFolder(folder: string): Promise<string> {
  try {
    return await realpath(folder)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    // A link to nothing must not pass for a folder that does not exist.
    if (await isLink(folder)) throw new GuardedFileError({ code: 'OUTSIDE_FOLDER' })
    const above = dirname(folder)
    return above === folder ? folder : join(await realFolder(above), basename(folder))
  }
}

async function isLink(path: string): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined)
  return found?.isSymbolicLink() ?? false
}
