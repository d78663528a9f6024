import { z } from 'zod'
import type { FlowContext } from './context.ts'
import { report, secretText, whole } from './fields.ts'
import { checkFileFormat, fileForm, fileShape } from './file-source-schema.ts'
import { literalPassword, literalSecret } from './literal-secrets.ts'

/** The key of a server as `ssh-keygen -l` shows it. */
const hostKey = () =>
  z
    .string()
    .regex(
      /^SHA256:[A-Za-z0-9+/]{43}$/,
      'must be a fingerprint such as SHA256:uNiVztksCsDhcc0u9e8BrwJ2cb8x8nKmvtSrmPtDWMw; ssh-keyscan HOST | ssh-keygen -lf - shows it',
    )

const example = 'for example sftp://user@files.example.com:22'

function address(context: FlowContext) {
  return secretText(context, (template, value) => {
    const url = URL.parse(value)
    if (url?.protocol !== 'sftp:' || url.hostname === '' || url.username === '') {
      return { message: 'is not an address of an SFTP server with a user', hint: example }
    }
    if (url.password !== '') {
      return { message: 'must not hold a password', hint: 'give it as source.password' }
    }
    if (!['', '/'].includes(url.pathname) || url.search !== '' || url.hash !== '') {
      return { message: 'holds more than user, host and port', hint: 'files stand in source.path' }
    }
    return literalPassword(template)
  })
}

/** A path of the server; `${env:NAME}` lets it differ. It is shown to people. */
function remotePath(context: FlowContext) {
  return secretText(context, (template, value) => {
    if (template.includes('$' + '{file:')) {
      return { message: 'must not refer to a file', hint: `use \${env:NAME}` }
    }
    if (!/[^/]$/.test(value)) return { message: 'is a folder', hint: 'for example /out/*.csv' }
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
      const hint = 'the whole file of the key: id_ed25519, not id_ed25519.pub'
      return { message: 'is not a private key', hint }
    },
    { takesLines: true },
  )
}

/** Files that a server hands over by SFTP, read as those of this machine are. */
export function sftpSource(context: FlowContext) {
  return z
    .strictObject({
      type: z.literal('sftp'),
      url: address(context).describe('sftp://user@host:port'),
      hostKey: z
        .union([hostKey(), z.array(hostKey()).min(1).max(8)], 'must be a fingerprint or a list')
        .transform((given) => (typeof given === 'string' ? [given] : given))
        .describe('fingerprint of the key by which the server is known; no other is spoken to'),
      password: secretText(context, literalSecret).optional().describe('as a reference'),
      privateKey: privateKey(context).optional().describe('as a reference, best to a file'),
      passphrase: secretText(context, literalSecret).optional().describe('of the private key'),
      path: remotePath(context).describe('a file of the server, or several by * in its name'),
      maxMegabytes: whole(1, 10_240).prefault(256).describe('a larger file fails the poll'),
      ...fileShape(),
    })
    .superRefine(checkFileFormat)
    .superRefine(({ password, privateKey: key, passphrase }, issues) => {
      if (!password && !key) {
        const message = 'has no password and no privateKey'
        report(issues, { message, hint: 'add password or privateKey, as a reference' }, ['url'])
      }
      if (passphrase && !key) report(issues, { message: 'is of a privateKey' }, ['passphrase'])
    })
    .transform(fileForm)
}
