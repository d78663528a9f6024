import { lstatSync, mkdtempSync, rmdirSync, type Stats, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'

/**
 * Why the folder cannot be written to, or cannot be created if it does not exist; undefined if it can. Leaves no files.
 * Call it before `mkdir` with a path that a person chose: below `/proc` `mkdir` never ends (seen with Node 24.21).
 */
export function whyNotWritable(path: string): string | undefined {
  const folder = resolve(path)
  const there = nearestThere(folder)
  const text = `must be a folder that this user may write to; ${folder}`
  try {
    if (!statSync(there).isDirectory()) return `${text}: ${there} is no folder`
    // By writing: neither the mode nor the owner of a folder shows a read-only or special file system.
    rmdirSync(mkdtempSync(join(there, '.tillbridge-')))
    return undefined
  } catch (error) {
    return `${text}: ${(error as Error).message}`
  }
}

/** The folder, or the nearest existing one above it. A link without a target exists. */
function nearestThere(folder: string): string {
  return entryAt(folder) || folder === dirname(folder) ? folder : nearestThere(dirname(folder))
}

function entryAt(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false })
  } catch {
    // Below a file, or in a folder without permission: the folder above it has the reason.
    return undefined
  }
}
