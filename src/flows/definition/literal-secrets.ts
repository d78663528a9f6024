import { type Finding, isReferenced, literalParts, withPlaceholders } from './secret-references.ts'

const stand = 'REFERENCE'
const secretParameter =
  /[?&;]\s*(password|pwd|pass|secret|token|access_token|auth|api_?key|key|sig|signature)\s*=\s*([^&;#]*)/gi
const secretHeader = /^(authorization|proxy-authorization|cookie)$|token|secret|password|api-?key/i

/** A finding for a literal password in an address or a connection string. */
export function literalPassword(template: string): Finding | undefined {
  const shown = withPlaceholders(template, stand)
  const password = /^[a-z][a-z0-9+.-]*:\/\/[^:/?#]*:([^/?#]+)@/i.exec(shown)?.[1]
  const inAddress = password !== undefined && !password.includes(stand)
  const parameters = [...`?${shown}`.matchAll(secretParameter)]
  const inParameter = parameters.some(([, , value]) => value?.trim() && !value.includes(stand))
  if (!inAddress && !inParameter) return undefined
  return { why: { code: 'LITERAL_PASSWORD' } }
}

/** A finding for a credential header without a reference. */
export function literalCredential(header: string, template: string): Finding | undefined {
  if (!secretHeader.test(header) || isReferenced(template)) return undefined
  return { why: { code: 'LITERAL_HEADER', data: { header } } }
}

/** A finding for a literal value of a key that is secret as a whole. */
export function literalSecret(template: string): Finding | undefined {
  if (isReferenced(template) && literalParts(template).trim() === '') return undefined
  return { why: { code: 'LITERAL_SECRET' } }
}
