/** What a flow file may refer to, and what it needs of the settings; handed in, so that loading touches nothing else. */
export type FlowContext = {
  /** For `${env:NAME}`. */
  env: Readonly<Record<string, string | undefined>>
  /** For `${file:/path}`; throws when it cannot be read. Relative paths are relative to the working directory. */
  readFile: (path: string) => string
  /** The settings that an email channel needs. */
  mail: { smtpUrl: string | undefined; mailFrom: string | undefined }
}
