import { z } from 'zod'
import { checkFileFormat, fileForm, fileShape } from './file-source-schema.ts'
import type { FlowContext } from './flow-context.ts'
import { literalPassword, literalSecret } from './literal-secrets.ts'
import { findingMessage, report, secretText, whole } from './value-schemas.ts'

/** The key of a server as `ssh-keygen -l` shows it. */
const hostKey = () =>
  z.string().regex(/^SHA256:[A-Za-z0-9+/]{43}$/, findingMessage({ code: 'MUST_BE_FINGERPRINT' }))

function address(context: FlowContext) {
  return secretText(context, (template, value) => {
    const url = URL.parse(value)
    if (url?.protocol !== 'sftp:' || url.hostname === '' || url.username === '') {
      return { why: { code: 'NO_SFTP_ADDRESS' } }
    }
    if (url.password !== '') {
      return { why: { code: 'SFTP_WITH_PASSWORD' } }
    }
    if (!['', '/'].includes(url.pathname) || url.search !== '' || url.hash !== '') {
      return { why: { code: 'SFTP_WITH_PATH' } }
    }
    return literalPassword(template)
  })
}

/** A path on the server; `${env:NAME}` lets it differ. Paths are displayed. */
function remotePath(context: FlowContext) {
  return secretText(context, (template, value) => {
    if (template.includes('$' + '{file:')) {
      return { why: { code: 'REFERS_TO_FILE' } }
    }
    if (!/[^/]$/.test(value)) return { why: { code: 'PATH_IS_FOLDER' } }
    return undefined
  }).transform((path) => path.reveal())
}

function privateKey(context: FlowContext) {
  return secretText(
    context,
    (template, value) => {
      const finding = literalSecret(template)
      if (finding) return finding
      if (/^(?:-----BEGIN |PuTTY-User-Key-File-)/.test(value)) return undefined
      return { why: { code: 'NO_PRIVATE_KEY' } }
    },
    { takesLines: true },
  )
}

/** How a server is reached, and who speaks to it. */
export function sftpAccess(context: FlowContext) {
  return {
    url: address(context).describe('sftp://user@host:port'),
    hostKey: z
      .union(
        [hostKey(), z.array(hostKey()).min(1).max(8)],
        findingMessage({ code: 'MUST_BE_FINGERPRINTS' }),
      )
      .transform((given) => (typeof given === 'string' ? [given] : given))
      .describe('fingerprint of the key by which the server is known; no other is spoken to'),
    password: secretText(context, literalSecret).optional().describe('as a reference'),
    privateKey: privateKey(context).optional().describe('as a reference, best to a file'),
    passphrase: secretText(context, literalSecret).optional().describe('of the private key'),
  }
}

type SftpAccess = z.output<z.ZodObject<ReturnType<typeof sftpAccess>>>

/** Reports an access without a credential, or with half of one. */
export function checkSftpAccess(
  { password, privateKey: key, passphrase }: SftpAccess,
  issues: z.RefinementCtx,
): void {
  if (!password && !key) report(issues, { code: 'NO_PASSWORD_NOR_KEY' }, ['url'])
  if (passphrase && !key) report(issues, { code: 'PASSPHRASE_WITHOUT_KEY' }, ['passphrase'])
}

/** Files on an SFTP server, read like those of this machine. */
export function sftpSource(context: FlowContext) {
  return z
    .strictObject({
      type: z.literal('sftp'),
      ...sftpAccess(context),
      path: remotePath(context).describe('a file of the server, or several by * in its name'),
      maxMegabytes: whole(1, 10_240).prefault(256).describe('a larger file fails the poll'),
      ...fileShape(),
    })
    .superRefine(checkFileFormat)
    .superRefine(checkSftpAccess)
    .transform(fileForm)
}
