import { z } from 'zod'
import type { Secret } from '../../domain/secret.ts'
import { type FlowContext, isOwnFile } from './context.ts'
import { report, secretText } from './fields.ts'
import { literalCredential, literalPassword } from './literal-secrets.ts'
import { type Finding, literalParts } from './references.ts'

const schemes = {
  postgres: { pattern: /^postgres(ql)?:\/\//, form: 'postgres://user@host:5432/database' },
  mysql: { pattern: /^(mysql|mariadb):\/\//, form: 'mysql://user@host:3306/database' },
  mssql: {
    pattern: /^((mssql|sqlserver):\/\/|[^:/]+=)/,
    form: 'mssql://user@host:1433/database or Server=host;Database=database;User Id=user',
  },
  firebird: {
    pattern:
      /^firebird:\/\/[^/?#@]+@[^/?#@]+\/[^?#]+(?:\?(?:(?:charset=(?:UTF8|WIN1252|ISO8859_1|WIN1251)|role=[^&#]+)(?:&(?!$)|$))+)?$/i,
    form: 'firebird://user@host:3050/data/erp.fdb?charset=WIN1252 (UTF8 without it; also ISO8859_1, WIN1251, and role)',
  },
}

/** Of a destination. */
export const driver = () => z.enum(['postgres', 'mysql', 'mssql'])

/** Of a source: what can be read is more than what is written to. */
export const sourceDriver = () => z.enum(['postgres', 'mysql', 'mssql', 'firebird'])

/** The address of a database; whether it suits the driver is `checkDatabase`'s to say. */
export function databaseUrl(context: FlowContext) {
  return secretText(context, literalPassword).describe(
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a flow file
    'address of the database, best as ${env:NAME}; a password in it must be a reference, percent-encoded',
  )
}

export function checkDatabase(
  { driver, url }: { driver: keyof typeof schemes; url: Secret },
  issues: z.RefinementCtx,
): void {
  const { pattern, form } = schemes[driver]
  if (pattern.test(url.reveal())) return
  const message = `is not an address for the driver ${driver}`
  report(issues, { message, hint: `for example ${form}` }, ['url'])
}

/** An http or https address in which the given placeholders, such as `{pk}`, are filled in later. */
export function httpUrl(context: FlowContext, placeholders: readonly string[] = []) {
  return secretText(context, (template, value) => {
    const unknown = unknownPlaceholder(template, value, placeholders)
    if (unknown) return unknown
    const url = URL.parse(value.replace(/\{[^{}]*\}/g, '0'))
    if (!url || !['http:', 'https:'].includes(url.protocol)) {
      return { message: 'is not an http or https address', hint: 'for example https://example.com' }
    }
    if (url.username !== '' || url.password !== '') {
      return { message: 'must not hold a user or password', hint: 'send an authorization header' }
    }
    return literalPassword(template)
  })
}

export const headerName = () =>
  z.string().regex(/^[A-Za-z0-9-]{1,128}$/, 'must be the name of a header')

/** Header names (kept as written) and values. */
export function headers(context: FlowContext, placeholders: readonly string[] = []) {
  // What a reference brings is no template: a password may well hold a word in braces.
  const value = secretText(context, (template) => {
    const written = literalParts(template)
    return unknownPlaceholder(written, written, placeholders)
  })
  return z.record(headerName(), value).superRefine((given, issues) => {
    for (const [header, { template }] of Object.entries(given)) {
      const finding = literalCredential(header, template)
      if (finding) report(issues, finding, [header])
    }
  })
}

/** A path of a file; `${env:NAME}` lets it differ by machine. Relative paths: to the working directory. */
export function filePath(context: FlowContext, placeholders: readonly string[] = []) {
  return secretText(context, (template, value) => {
    // It is shown to people, so it must not hold what only a secret's file or variable should.
    if (template.includes('$' + '{file:')) {
      return { message: 'must not refer to a file', hint: `use \${env:NAME}` }
    }
    if (isOwnFile(value, context)) {
      return { message: 'is a file of the service itself, which no flow may read or write' }
    }
    return unknownPlaceholder(template, value, placeholders)
  }).transform((path) => path.reveal())
}

/** `value` is the text with its references replaced; of these nothing may be repeated. */
export function unknownPlaceholder(
  template: string,
  value: string,
  allowed: readonly string[],
): Finding | undefined {
  // Of `body.field` any field.
  const isAllowed = (word: string) =>
    allowed.some(
      (one) => one === word || (one.includes('.') && word.startsWith(one.replace(/[^.]+$/, ''))),
    )
  const unknown = [...value.matchAll(/\{(\+?\w[^{}]*)\}/g)].find(
    ([, word = '']) => !isAllowed(word.replace(/^\+(?=remembered\.)/, '')),
  )
  if (!unknown) return undefined
  const list = allowed.map((word) => `{${word}}`).join(', ')
  const isWritten = literalParts(template).includes(unknown[0])
  return {
    message: isWritten
      ? `${unknown[0]} is not a placeholder here`
      : 'a reference brings a word in braces, which is not a placeholder here',
    hint: list === '' ? 'there are none here' : `there are ${list}`,
  }
}
