import { readdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { whyNotWritable } from '../files/writable-folder.ts'
import type { Config, ConfigProblem } from './config.ts'

/** The problems of the folders in these settings. Changes nothing. */
export function folderProblems(config: Config): ConfigProblem[] {
  const hasBuiltInProvider = config.provider === 'sandbox' && config.mpApiUrl === undefined
  const writesData = config.databaseUrl === undefined || hasBuiltInProvider
  const found = {
    DATA_DIR: writesData ? whyNotWritable(config.dataDir) : undefined,
    FLOWS_DIR: unreadable(resolve(config.flowsDir)),
  }
  return Object.entries(found).flatMap(([variable, message]) =>
    message === undefined ? [] : [{ variable, message }],
  )
}

/** Why the folder cannot be read. A missing folder counts as empty. */
function unreadable(folder: string): string | undefined {
  try {
    readdirSync(folder)
    return undefined
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return code === 'ENOENT' ? undefined : `must be a folder that this user may read: ${message}`
  }
}
