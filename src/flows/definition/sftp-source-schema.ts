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
    url: address(context).meta({
      description:
        '`sftp://user@host:port`, without a password and without a path; the port is 22 unless it says another',
      examples: ['sftp://tienda@archivos.example.com:22'],
    }),
    hostKey: z
      .union(
        [hostKey(), z.array(hostKey()).min(1).max(8)],
        findingMessage({ code: 'MUST_BE_FINGERPRINTS' }),
      )
      .transform((given) => (typeof given === 'string' ? [given] : given))
      .meta({
        description:
          "fingerprint of the server's key, or a list, as `ssh-keyscan HOST | ssh-keygen -lf -` shows it. Compare it with the server's operator. Nothing goes to a server with another key. A server with several keys shows Ed25519 first, then ECDSA, then RSA",
        examples: ['SHA256:uNiVztksCsDhcc0u9e8BrwJ2cb8x8nKmvtSrmPtDWMw'],
      }),
    password: secretText(context, literalSecret)
      .optional()
      .meta({
        description: `as a reference, \${env:NAME} or \${file:/path}. Also the answer to a server that asks for it (keyboard-interactive)`,
        examples: [`\${env:SFTP_PASSWORD}`],
      }),
    privateKey: privateKey(context)
      .optional()
      .meta({
        description:
          'as a reference, best to a file: OpenSSH, PEM or PuTTY. With `password` too both are given, the key first',
        examples: [`\${file:/run/secrets/sftp_key}`],
      }),
    passphrase: secretText(context, literalSecret)
      .optional()
      .meta({
        description: 'of the private key, as a reference',
        examples: [`\${env:SFTP_PASSPHRASE}`],
      }),
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
  const shape = fileShape()
  return z
    .strictObject({
      type: z.literal('sftp'),
      ...sftpAccess(context),
      path: remotePath(context).meta({
        description:
          'a file of the server, or several by `*` in the name. Relative paths: to the folder in which the user arrives. Links are not followed',
        examples: ['/salida/precios*.csv'],
      }),
      maxMegabytes: whole(1, 10_240)
        .prefault(256)
        .meta({ description: 'a larger file fails the poll before its transfer', examples: [256] }),
      ...shape,
      settle: shape.settle.meta({
        description:
          'a file counts when two checks this far apart find the same size and time. A poll waits up to 30s for the second; after that the next poll takes it. A file older than a day counts at once',
        examples: ['5s'],
      }),
      after: shape.after.meta({
        description:
          '`archive` moves the file into the folder `archive` beside it, and makes the folder; `delete` deletes it. After a failure of this step the next poll does it first',
        examples: ['archive'],
      }),
    })
    .superRefine(checkFileFormat)
    .superRefine(checkSftpAccess)
    .transform(fileForm)
}
