import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'

/** What a flow file may refer to, and what it needs of the settings; handed in, so that loading touches nothing else. */
export type FlowContext = {
  /** For `${env:NAME}`. */
  env: Readonly<Record<string, string | undefined>>
  /** For `${file:/path}`; throws when it cannot be read. Relative paths are relative to the working directory. */
  readFile: (path: string) => string
  /** The settings that an email channel needs. */
  mail: { smtpUrl: string | undefined; mailFrom: string | undefined }
}

/** The context of this process: its environment and its files. Pipes and devices are refused, since they may block. */
export function createFlowContext(env: FlowContext['env'], mail: FlowContext['mail']): FlowContext {
  return {
    env,
    mail,
    readFile: (path) => {
      const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
      try {
        if (!fstatSync(file).isFile()) throw new Error('not a file')
        return readFileSync(file, 'utf8')
      } finally {
        closeSync(file)
      }
    },
  }
}
