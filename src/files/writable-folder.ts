import { lstatSync, mkdtempSync, rmdirSync, type Stats, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'

/**
 * Why nothing can be written into the folder, or, where it is not there yet, why it cannot be made; undefined when all is well. It
 * leaves nothing. Ask it before `mkdir` makes a path that a person named: below `/proc` that never ends (seen with Node 24.21).
 */
export function whyNotWritable(path: string): string | undefined {
  const folder = resolve(path)
  const there = nearestThere(folder)
  const text = `must be a folder that this user may write to; ${folder}`
  try {
    if (!statSync(there).isDirectory()) return `${text}: ${there} is no folder`
    // By trying: neither the mode of a folder nor who asks tells of a read-only or a special file system.
    rmdirSync(mkdtempSync(join(there, '.tillbridge-')))
    return undefined
  } catch (error) {
    return `${text}: ${(error as Error).message}`
  }
}

/** The folder, or the nearest one above it that exists. A link that leads nowhere exists. */
function nearestThere(folder: string): string {
  return entryAt(folder) || folder === dirname(folder) ? folder : nearestThere(dirname(folder))
}

function entryAt(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false })
  } catch {
    // Below a file, or in a folder that may not be entered: what is above it says why.
    return undefined
  }
}
