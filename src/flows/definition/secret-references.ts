import { reference, Secret, type SecretPart } from '../../domain/flow-secret.ts'
import { GuardedFileError } from '../../files/read-regular-file.ts'
import type { Reason } from '../../texts/reason.ts'
import type { FlowContext } from './flow-context.ts'

/** What is wrong with a value. `hint` is the likely correction, unless the reason already has it. */
export type Finding = { why: Reason; hint?: Reason | undefined }

/**
 * Replaces `${env:NAME}` and `${file:/path}`. The line end at the end of a file is removed, because editors add it. Findings
 * name the variable or path, never a value. A line break is refused in a header or an address.
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
    return { findings: [{ why: { code: 'CONTROL_CHARACTER_IN_VALUE' } }] }
  }
  return { secret }
}

/** The text without its references: the literal part. */
export function literalParts(template: string): string {
  return template.replace(reference, '')
}

/** The text with each reference replaced by a harmless word, to check its form. */
export function withPlaceholders(template: string, word: string): string {
  return template.replace(reference, word)
}

/** Whether the text itself contains no secret. */
export function isReferenced(template: string): boolean {
  return template.search(reference) >= 0
}

function unknownKind(whole: string, name: string): Finding {
  const example = `\${env:${/^\w+$/.test(name) ? name : 'NAME'}}`
  return { why: { code: 'UNKNOWN_REFERENCE', data: { reference: whole, example } } }
}

function lookUp(kind: string, name: string, context: FlowContext): string | Finding {
  if (kind === 'env') {
    // Compared in upper case, because Windows ignores the case of variable names.
    if (context.own?.variables.has(name.toUpperCase())) {
      return { why: { code: 'OWN_VARIABLE', data: { name } } }
    }
    const value = Object.hasOwn(context.env, name) ? context.env[name]?.trim() : undefined
    return value || { why: { code: 'VARIABLE_NOT_SET', data: { name } } }
  }
  const unreadable = (what: Reason): Finding => ({
    why: { code: 'SECRET_FILE', data: { path: name, what } },
  })
  try {
    const text = context.readFile(name)
    return text.replace(/\r?\n$/, '') || unreadable({ code: 'EMPTY' })
  } catch (error) {
    return unreadable(error instanceof GuardedFileError ? error.why : { code: 'CANNOT_BE_READ' })
  }
}
