import { ExpressionError, lineAndColumn } from '../mapping/expression-error.ts'
import { compileGuarded } from '../mapping/guarded.ts'
import type { FlowContext } from './context.ts'
import type { Path, PathFinding } from './findings.ts'
import { nearest } from './nearest.ts'
import { addressFindings } from './rules-addresses.ts'
import { destinationFindings } from './rules-destinations.ts'
import { sourceFindings } from './rules-source.ts'
import type { Flow } from './schema.ts'

/** What is wrong with a well-formed flow: keys that contradict each other, and expressions. */
export function ruleFindings(flow: Flow, context: FlowContext): PathFinding[] {
  return [
    ...sourceFindings(flow),
    ...destinationFindings(flow),
    ...addressFindings(flow),
    ...alertFindings(flow, context),
    ...expressions(flow).flatMap(({ path, text }) => expressionFindings(path, text)),
  ]
}

function alertFindings({ alerts, destinations }: Flow, { mail }: FlowContext): PathFinding[] {
  const names = destinations.map(({ name }) => name)
  return alerts.onJobFailed.flatMap((channel, index) => {
    const path: Path = ['alerts', 'onJobFailed', index]
    const findings: PathFinding[] = []
    for (const [position, name] of (channel.destinations ?? []).entries()) {
      if (names.includes(name)) continue
      const meant = nearest(name, names)
      findings.push({
        path: [...path, 'destinations', position],
        message: 'is not the name of a destination of this flow',
        hint: meant ? `did you mean ${meant}?` : `there are ${names.join(', ')}`,
      })
    }
    if (channel.type === 'email') {
      for (const [setting, value] of [
        ['SMTP_URL', mail.smtpUrl],
        ['MAIL_FROM', mail.mailFrom],
      ] as const) {
        if (value !== undefined) continue
        const message = `mail needs the environment variable ${setting}`
        findings.push({ path: [...path, 'type'], message, hint: `set ${setting}` })
      }
    }
    return findings
  })
}

function expressions({ item, destinations, source }: Flow): { path: Path; text: string }[] {
  const found: { path: Path; text: string | undefined }[] = [
    { path: ['item', 'filter'], text: item.filter },
    ...destinations.map(({ map }, index) => ({ path: ['destinations', index, 'map'], text: map })),
  ]
  if (source.type === 'http' && source.paging.type === 'cursor') {
    found.push({ path: ['source', 'paging', 'next'], text: source.paging.next })
  }
  return found.flatMap(({ path, text }) => (text === undefined ? [] : [{ path, text }]))
}

function expressionFindings(path: Path, text: string): PathFinding[] {
  try {
    // Not compileExpression: a file that is only checked needs no thread to run it.
    compileGuarded(text)
    return []
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error
    const { message, position } = error
    if (position === undefined) return [{ path, message: `is not JSONata: ${message}` }]
    // At the end something is missing; the blanks there are not where to look.
    const offset = Math.min(position, text.trimEnd().length)
    const { line, column } = lineAndColumn(text, offset)
    const where = text.trim().includes('\n') ? `line ${line}, column ${column}` : `column ${column}`
    return [{ path, offset, message: `is not JSONata: ${message} (${where} of the expression)` }]
  }
}
