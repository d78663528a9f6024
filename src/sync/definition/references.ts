import { reference, Secret, type SecretPart } from '../../domain/secret.ts'
import { GuardedFileError } from '../../files/guarded-file.ts'
import type { FlowContext } from './context.ts'

export type Finding = { message: string; hint?: string }

/**
 * Replaces `${env:NAME}` and `${file:/path}`; the line end that editors put at the end of a file is dropped. The findings
 * name the variable or the path, never a value. A line break is refused where it would end a header or an address.
 */
export function resolveReferences(
  template: string,
  context: FlowContext,
  { takesLines = false } = {},
): { secret: Secret } | { findings: Finding[] } {
  const findings: Finding[] = []
  const parts: SecretPart[] = []
  let end = 0
  for (const match of template.matchAll(reference)) {
    const [whole, kind, name = ''] = match
    parts.push({ text: template.slice(end, match.index), isWritten: true })
    end = match.index + whole.length
    const found = kind === undefined ? unknownKind(whole, name) : lookUp(kind, name, context)
    if (typeof found === 'string') parts.push({ text: found, isWritten: false })
    else findings.push(found)
  }
  parts.push({ text: template.slice(end), isWritten: true })
  if (findings.length > 0) return { findings }
  const secret = new Secret(parts, template)
  const value = takesLines ? secret.reveal().replace(/[\t\n\r]/g, ' ') : secret.reveal()
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  if (/[\u0000-\u001f\u007f]/.test(value)) {
    return { findings: [{ message: 'holds a line break or control character' }] }
  }
  return { secret }
}

/** The text with every reference cut out: what is left of it is literal. */
export function literalParts(template: string): string {
  return template.replace(reference, '')
}

/** The text with every reference replaced by a harmless word, so that its form can be checked. */
export function withPlaceholders(template: string, word: string): string {
  return template.replace(reference, word)
}

/** Whether the text holds nothing of a secret itself. */
export function isReferenced(template: string): boolean {
  return template.search(reference) >= 0
}

function unknownKind(whole: string, name: string): Finding {
  const example = /^\w+$/.test(name) ? name : 'NAME'
  return {
    message: `${whole} is not a known reference`,
    hint: `use \${env:${example}} or \${file:/path}`,
  }
}

function lookUp(kind: string, name: string, context: FlowContext): string | Finding {
  if (kind === 'env') {
    // In capitals, since Windows makes no difference between them.
    if (context.own?.variables.has(name.toUpperCase())) {
      return {
        message: `the environment variable ${name} is the service's own, which no flow may read`,
        hint: 'give the flow a variable of its own',
      }
    }
    const value = Object.hasOwn(context.env, name) ? context.env[name]?.trim() : undefined
    return value || { message: `the environment variable ${name} is not set`, hint: `set ${name}` }
  }
  const unreadable = (why: string): Finding => ({
    message: `the file ${name} ${why}`,
    hint: 'name a readable text file that holds nothing but the secret',
  })
  try {
    const text = context.readFile(name)
    return text.replace(/\r?\n$/, '') || unreadable('is empty')
  } catch (error) {
    return unreadable(error instanceof GuardedFileError ? error.message : 'cannot be read')
  }
}
