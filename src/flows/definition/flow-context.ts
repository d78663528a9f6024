import { statSync } from 'node:fs'
import { basename, dirname, resolve } from 'node:path'
import { readGuardedFile } from '../../files/read-regular-file.ts'
import { namesMatching } from '../sources/file-store.ts'

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
}

export type OwnSecrets = {
  /** Names of variables in upper case. */
  variables: ReadonlySet<string>
  /** Files that no flow may read or write. */
  files: readonly string[]
}

/** Larger than any key or certificate. */
const maxSecretBytes = 65_536

/** The environment and files of this process, without the service's own secrets. */
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

/** Whether a path, or a pattern with `*` in its name, can mean one of the service's own files. */
export function isOwnFile(path: string, { own }: FlowContext): boolean {
  const whole = resolve(path)
  // Some file systems ignore case.
  const matches = namesMatching(basename(whole).toLowerCase())
  return (own?.files ?? []).some(
    (file) => matches(basename(file).toLowerCase()) && isSameFolder(dirname(whole), dirname(file)),
  )
}

/** Also follows links and other spellings that the file system treats as equal. */
function isSameFolder(left: string, right: string): boolean {
  const [one, other] = [left, right].map((path) => statSync(path, { throwIfNoEntry: false }))
  return one !== undefined && one.dev === other?.dev && one.ino === other.ino
}
