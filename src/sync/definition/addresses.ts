import { z } from 'zod'
import type { FlowContext } from './context.ts'
import { report, secretText } from './fields.ts'
import { literalCredential, literalPassword } from './literal-secrets.ts'
import type { Finding } from './references.ts'
import type { Secret } from './secret.ts'

const schemes = {
  postgres: { pattern: /^postgres(ql)?:\/\//, form: 'postgres://user@host:5432/database' },
  mysql: { pattern: /^(mysql|mariadb):\/\//, form: 'mysql://user@host:3306/database' },
  mssql: {
    pattern: /^((mssql|sqlserver):\/\/|[^:/]+=)/,
    form: 'mssql://user@host:1433/database or Server=host;Database=database;User Id=user',
  },
}

export const driver = () => z.enum(['postgres', 'mysql', 'mssql'])

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
    const unknown = unknownPlaceholder(value, placeholders)
    if (unknown) return unknown
    const url = URL.parse(value.replace(/\{\w+\}/g, '0'))
    if (!url || !['http:', 'https:'].includes(url.protocol)) {
      return { message: 'is not an http or https address', hint: 'for example https://example.com' }
    }
    if (url.username !== '' || url.password !== '') {
      return { message: 'must not hold a user or password', hint: 'send an authorization header' }
    }
    return literalPassword(template)
  })
}

/** Header names (kept as written) and values. */
export function headers(context: FlowContext, placeholders: readonly string[] = []) {
  const value = secretText(context, (_, text) => unknownPlaceholder(text, placeholders))
  return z
    .record(z.string().regex(/^[A-Za-z0-9-]{1,128}$/, 'must be the name of a header'), value)
    .superRefine((given, issues) => {
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
    return unknownPlaceholder(value, placeholders)
  }).transform((path) => path.reveal())
}

function unknownPlaceholder(text: string, allowed: readonly string[]): Finding | undefined {
  const unknown = [...text.matchAll(/\{(\w+)\}/g)].find(([, word = '']) => !allowed.includes(word))
  if (!unknown) return undefined
  const list = allowed.map((word) => `{${word}}`).join(', ')
  return {
    message: `${unknown[0]} is not a placeholder here`,
    hint: list === '' ? 'there are none here' : `there are ${list}`,
  }
}
