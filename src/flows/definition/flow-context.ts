import { realpathSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { isIn } from '../../files/fence.ts'
import { readGuardedFile } from '../../files/read-regular-file.ts'
import { namesMatching } from './file-pattern.ts'

/** The references and settings that a flow file needs. They are passed in, so that loading a flow reads nothing else. */
export type FlowContext = {
  /** Values of `${env:NAME}`. */
  env: Readonly<Record<string, string | undefined>>
  /** Reads `${file:/path}`; throws when that fails. Relative paths start at the working directory. */
  readFile: (path: string) => string
  /** Settings that an email channel needs. */
  mail: { smtpUrl: string | undefined; mailFrom: string | undefined }
  /** The service's own secrets, which no flow may use; default: none. */
  own?: OwnSecrets | undefined
  /** CONNECTIONS_FILE: what flows may reach by a name; default: there is none. */
  connectionsFile?: string | undefined
}

export type OwnSecrets = {
  /** Names of variables in upper case. */
  variables: ReadonlySet<string>
  /** Files that no flow may read or write. */
  files: readonly string[]
  /** Folders of the service, in which no flow may read or write a file. */
  folders: readonly string[]
}

/** Larger than any key or certificate. */
const maxSecretBytes = 65_536

/** The environment and files of this process, without the service's own secrets. */
export function createFlowContext(
  env: FlowContext['env'],
  mail: FlowContext['mail'],
  own: OwnSecrets,
  connectionsFile?: string,
): FlowContext {
  return {
    env,
    mail,
    own,
    connectionsFile,
    readFile: (path) =>
      readGuardedFile(path, { maxBytes: maxSecretBytes, except: own.files }).toString('utf8'),
  }
}

/** Whether a path, or a pattern with `*` in its name, can mean one of the service's own files. */
export function isOwnFile(path: string, { own }: FlowContext): boolean {
  const whole = resolve(path)
  // Some file systems ignore case.
  const matches = namesMatching(basename(whole).toLowerCase())
  return (own?.files ?? []).some(
    (file) => matches(basename(file).toLowerCase()) && isSameFolder(dirname(whole), dirname(file)),
  )
}

/** Whether a path is in a folder of the service. Each access of a file checks it again, by the real path. */
export function isOwnPlace(path: string, { own }: FlowContext): boolean {
  const whole = resolve(path)
  const paths = [whole, join(realOr(dirname(whole)), basename(whole))]
  return (own?.folders ?? []).some((folder) =>
    paths.some((one) => isIn(one, resolve(folder)) || isIn(one, realOr(resolve(folder)))),
  )
}

function realOr(folder: string): string {
  try {
    return realpathSync(folder)
  } catch {
    return folder
  }
}

/** Also follows links and other spellings that the file system treats as equal. */
function isSameFolder(left: string, right: string): boolean {
  const [one, other] = [left, right].map((path) => statSync(path, { throwIfNoEntry: false }))
  return one !== undefined && one.dev === other?.dev && one.ino === other.ino
}
