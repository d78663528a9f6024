import { lstatSync, mkdtempSync, readdirSync, rmdirSync, type Stats, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import type { Config, ConfigProblem } from './config.ts'

/** What is wrong with the folders that a service with these settings works in; it changes nothing. */
export function placeProblems(config: Config): ConfigProblem[] {
  const hasBuiltInProvider = config.provider === 'sandbox' && config.mpApiUrl === undefined
  const writesData = config.databaseUrl === undefined || hasBuiltInProvider
  const found = {
    DATA_DIR: writesData ? unwritable(resolve(config.dataDir)) : undefined,
    FLOWS_DIR: unreadable(resolve(config.flowsDir)),
  }
  return Object.entries(found).flatMap(([variable, message]) =>
    message === undefined ? [] : [{ variable, message }],
  )
}

/** Why nothing can be written into the folder, or, where it is not there yet, why it cannot be made. */
function unwritable(folder: string): string | undefined {
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

/** Why the folder cannot be read; one that is not there counts as empty. */
function unreadable(folder: string): string | undefined {
  try {
    readdirSync(folder)
    return undefined
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return code === 'ENOENT' ? undefined : `must be a folder that this user may read: ${message}`
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
