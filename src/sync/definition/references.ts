import type { FlowContext } from './context.ts'
import { Secret } from './secret.ts'

const reference = /\$\{(?:(env|file):)?([^}]*)\}/g
const maxFileCharacters = 65_536

export type Finding = { message: string; hint?: string }

/**
 * Replaces `${env:NAME}` and `${file:/path}`; the line end that editors put at the end of a file is dropped. The findings
 * name the variable or the path, never a value.
 */
export function resolveReferences(
  template: string,
  context: FlowContext,
): { secret: Secret } | { findings: Finding[] } {
  const findings: Finding[] = []
  const value = template.replace(reference, (whole, kind: string | undefined, name: string) => {
    const found = kind === undefined ? unknownKind(whole, name) : lookUp(kind, name, context)
    if (typeof found === 'string') return found
    findings.push(found)
    return ''
  })
  if (findings.length > 0) return { findings }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  if (/[\u0000-\u001f\u007f]/.test(value)) {
    return { findings: [{ message: 'holds a line break or control character' }] }
  }
  return { secret: new Secret(value, template) }
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
    const value = Object.hasOwn(context.env, name) ? context.env[name]?.trim() : undefined
    return value || { message: `the environment variable ${name} is not set`, hint: `set ${name}` }
  }
  const unreadable = (why: string): Finding => ({
    message: `the file ${name} ${why}`,
    hint: 'name a readable text file that holds nothing but the secret',
  })
  try {
    const text = context.readFile(name)
    if (text.length > maxFileCharacters) return unreadable('is longer than 64 Ki characters')
    return text.replace(/\r?\n$/, '') || unreadable('is empty')
  } catch {
    return unreadable('cannot be read')
  }
}
