import { z } from 'zod'
import type { Secret } from '../../domain/flow-secret.ts'
import { type FlowContext, isOwnFile, isOwnPlace } from './flow-context.ts'
import { literalCredential, literalPassword } from './literal-secrets.ts'
import { type Finding, literalParts } from './secret-references.ts'
import { findingMessage, report, secretText } from './value-schemas.ts'

const schemes = {
  postgres: { pattern: /^postgres(ql)?:\/\//, form: 'postgres://user@host:5432/database' },
  mysql: { pattern: /^(mysql|mariadb):\/\//, form: 'mysql://user@host:3306/database' },
  mssql: {
    pattern: /^((mssql|sqlserver):\/\/|[^:/]+=)/,
    form: 'mssql://user@host:1433/database',
  },
  firebird: {
    pattern:
      /^firebird:\/\/[^/?#@]+@[^/?#@]+\/[^?#]+(?:\?(?:(?:charset=(?:UTF8|WIN1252|ISO8859_1|WIN1251)|role=[^&#]+)(?:&(?!$)|$))+)?$/i,
    form: 'firebird://user@host:3050/data/erp.fdb?charset=WIN1252',
  },
}

/** Databases of a destination. */
export const driver = () => z.enum(['postgres', 'mysql', 'mssql'])

/** Databases of a source, which include read-only ones. */
export const sourceDriver = () => z.enum(['postgres', 'mysql', 'mssql', 'firebird'])

/** The address of a database. `checkDatabase` checks whether it suits the driver. */
export function databaseUrl(context: FlowContext) {
  return secretText(context, literalPassword)
}

export function checkDatabase(
  { driver, url }: { driver: keyof typeof schemes; url: Secret },
  issues: z.RefinementCtx,
): void {
  const address = url.reveal()
  const { pattern, form } = schemes[driver]
  if (pattern.test(address)) return
  const isOther = (name: string) => schemes[name as typeof driver].pattern.test(address)
  const other = /^\w+:\/\//.test(address) ? Object.keys(schemes).find(isOther) : undefined
  if (other)
    report(issues, { code: 'ADDRESS_OF_OTHER_DRIVER', data: { driver, other } }, ['driver'])
  else report(issues, { code: 'NO_DATABASE_ADDRESS', data: { driver, example: form } }, ['url'])
}

/** The charset of a PostgreSQL database in SQL_ASCII is that of what is read. */
export function checkWrittenDatabase(
  { driver, url }: { driver: keyof typeof schemes; url: Secret },
  issues: z.RefinementCtx,
): void {
  if (driver !== 'postgres' || !/[?&]charset=/i.test(url.reveal())) return
  report(issues, { code: 'CHARSET_OF_SOURCE' }, ['url'])
}

/** An http or https address with the given placeholders, such as `{pk}`, which are filled later. */
export function httpUrl(context: FlowContext, placeholders: readonly string[] = []) {
  return secretText(context, (template, value) => {
    const unknown = unknownPlaceholder(template, value, placeholders)
    if (unknown) return unknown
    const url = URL.parse(value.replace(/\{[^{}]*\}/g, '0'))
    if (!url || !['http:', 'https:'].includes(url.protocol)) {
      return { why: { code: 'NO_HTTP_ADDRESS' } }
    }
    if (url.username !== '' || url.password !== '') {
      return { why: { code: 'ADDRESS_WITH_USER' } }
    }
    return literalPassword(template)
  })
}

export const headerName = () =>
  z.string().regex(/^[A-Za-z0-9-]{1,128}$/, findingMessage({ code: 'MUST_BE_HEADER_NAME' }))

/** Header names, as written, and values. */
export function headers(context: FlowContext, placeholders: readonly string[] = []) {
  // Only the literal text can have placeholders: a password may contain a word in braces.
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

/** A file path; `${env:NAME}` lets it differ by machine. Relative paths start at the working directory. */
export function filePath(context: FlowContext, placeholders: readonly string[] = []) {
  return secretText(context, (template, value) => {
    // Paths are displayed, so they must not contain a secret.
    if (template.includes('$' + '{file:')) {
      return { why: { code: 'REFERS_TO_FILE' } }
    }
    if (isOwnFile(value, context)) {
      return { why: { code: 'OWN_FILE' } }
    }
    if (isOwnPlace(value, context)) return { why: { code: 'PLACE_OF_SERVICE' } }
    return unknownPlaceholder(template, value, placeholders)
  }).transform((path) => path.reveal())
}

/** `value` is the text with references replaced; the finding must not show any of their values. */
export function unknownPlaceholder(
  template: string,
  value: string,
  allowed: readonly string[],
): Finding | undefined {
  // `body.field` allows any field.
  const isAllowed = (word: string) =>
    allowed.some(
      (one) => one === word || (one.includes('.') && word.startsWith(one.replace(/[^.]+$/, ''))),
    )
  const unknown = [...value.matchAll(/\{(\+?\w[^{}]*)\}/g)].find(
    ([, word = '']) => !isAllowed(word.replace(/^\+(?=remembered\.)/, '')),
  )
  if (!unknown) return undefined
  const known = allowed.map((word) => `{${word}}`).join(', ')
  const isWritten = literalParts(template).includes(unknown[0])
  return {
    why: isWritten
      ? { code: 'UNKNOWN_PLACEHOLDER', data: { placeholder: unknown[0] } }
      : { code: 'PLACEHOLDER_IN_REFERENCE' },
    hint: known === '' ? { code: 'NONE_HERE' } : { code: 'THERE_ARE', data: { known } },
  }
}
