import type { FlowContext } from './context.ts'
import type { Path, PathFinding } from './findings.ts'
import { nearest } from './nearest.ts'
import { addressFindings } from './rules-addresses.ts'
import { destinationFindings } from './rules-destinations.ts'
import { expressionFindings } from './rules-expressions.ts'
import { sourceFindings } from './rules-source.ts'
import type { Flow } from './schema.ts'

/** Findings of a well-formed flow: contradictions between keys, and expressions. */
export function ruleFindings(flow: Flow, context: FlowContext): PathFinding[] {
  return [
    ...sourceFindings(flow),
    ...destinationFindings(flow),
    ...addressFindings(flow),
    ...alertFindings(flow, context),
    ...expressionFindings(flow),
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
        why: {
          code: 'NO_SUCH_DESTINATION',
          data: meant ? { meant } : { known: names.join(', ') },
        },
      })
    }
    if (channel.type === 'email') {
      for (const [setting, value] of [
        ['SMTP_URL', mail.smtpUrl],
        ['MAIL_FROM', mail.mailFrom],
      ] as const) {
        if (value !== undefined) continue
        findings.push({
          path: [...path, 'type'],
          why: { code: 'MAIL_NOT_SET', data: { name: setting } },
        })
      }
    }
    return findings
  })
}
