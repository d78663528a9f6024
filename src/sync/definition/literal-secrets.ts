import { type Finding, isReferenced, literalParts, withPlaceholders } from './references.ts'

const stand = 'REFERENCE'
const reference = `use \${env:NAME} or \${file:/path}`
const secretParameter =
  /[?&;]\s*(password|pwd|pass|secret|token|access_token|auth|api_?key|key|sig|signature)\s*=\s*([^&;#]*)/gi
const secretHeader = /^(authorization|proxy-authorization|cookie)$|token|secret|password|api-?key/i

/** A password that stands in the file itself, in an address or a connection string. */
export function literalPassword(template: string): Finding | undefined {
  const shown = withPlaceholders(template, stand)
  const password = /^[a-z][a-z0-9+.-]*:\/\/[^:/?#]*:([^/?#]+)@/i.exec(shown)?.[1]
  const inAddress = password !== undefined && !password.includes(stand)
  const parameters = [...`?${shown}`.matchAll(secretParameter)]
  const inParameter = parameters.some(([, , value]) => value?.trim() && !value.includes(stand))
  if (!inAddress && !inParameter) return undefined
  return { message: 'a password, key or token must not stand in the file', hint: reference }
}

/** A header that identifies the caller and whose value holds no reference. */
export function literalCredential(header: string, template: string): Finding | undefined {
  if (!secretHeader.test(header) || isReferenced(template)) return undefined
  return {
    message: `the value of ${header} must not stand in the file`,
    hint: `write the secret part as a reference, such as "Bearer \${env:NAME}"`,
  }
}

/** A value that is secret as a whole. */
export function literalSecret(template: string): Finding | undefined {
  if (isReferenced(template) && literalParts(template).trim() === '') return undefined
  return { message: 'a secret must not stand in the file', hint: reference }
}
