import { statSync } from 'node:fs'
import { basename, dirname, resolve } from 'node:path'
import { readGuardedFile } from '../../files/guarded-file.ts'
import { namesMatching } from '../sources/file-store.ts'

/** What a flow file may refer to, and what it needs of the settings; handed in, so that loading touches nothing else. */
export type FlowContext = {
  /** For `${env:NAME}`. */
  env: Readonly<Record<string, string | undefined>>
  /** For `${file:/path}`; throws when it cannot be read. Relative paths are relative to the working directory. */
  readFile: (path: string) => string
  /** The settings that an email channel needs. */
  mail: { smtpUrl: string | undefined; mailFrom: string | undefined }
  /** What is the service's own and no flow may have; nothing when absent. */
  own?: OwnSecrets
}

export type OwnSecrets = {
  /** Names of variables, in capitals. */
  variables: ReadonlySet<string>
  /** Files that no flow may read or write. */
  files: readonly string[]
}

/** Larger than any key or certificate. */
const maxSecretBytes = 65_536

/** The context of this process: its environment and its files, without what is the service's own. */
export function createFlowContext(
  env: FlowContext['env'],
  mail: FlowContext['mail'],
  own: OwnSecrets,
): FlowContext {
  return {
    env,
    mail,
    own,
    readFile: (path) =>
      readGuardedFile(path, { maxBytes: maxSecretBytes, except: own.files }).toString('utf8'),
  }
}

/** Whether a path, or a pattern with `*` in its name, leads to a file of the service's own. */
export function isOwnFile(path: string, { own }: FlowContext): boolean {
  const whole = resolve(path)
  // Not every file system tells capitals from small letters.
  const matches = namesMatching(basename(whole).toLowerCase())
  return (own?.files ?? []).some(
    (file) => matches(basename(file).toLowerCase()) && isSameFolder(dirname(whole), dirname(file)),
  )
}

/** Also by a link, or by another spelling that the file system takes for the same. */
function isSameFolder(left: string, right: string): boolean {
  const [one, other] = [left, right].map((path) => statSync(path, { throwIfNoEntry: false }))
  return one !== undefined && one.dev === other?.dev && one.ino === other.ino
}
