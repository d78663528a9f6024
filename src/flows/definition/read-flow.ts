import { hintOf, type Reason, ReasonError, sentenceOf } from '../../domain/flow-reasons.ts'
import type { Language } from '../../domain/language.ts'
import type { FlowProblemView } from '../control/control-service-types.ts'
import { definitionHash } from './definition-hash.ts'
import { nearestWord } from './did-you-mean.ts'
import {
  firstFindings,
  keyText,
  type Path,
  type PathFinding,
  type PlacedFinding,
} from './findings.ts'
import type { FlowContext } from './flow-context.ts'
import { besideRemoved, removedFindings } from './removed-keys.ts'
import { addressFindings } from './rules-addresses.ts'
import { destinationFindings } from './rules-destinations.ts'
import { expressionFindings } from './rules-expressions.ts'
import { sourceFindings } from './rules-source.ts'
import { type Flow, flowSchema } from './schema.ts'
import { schemaFindings } from './schema-findings.ts'
import { parseYamlFile, type YamlFile } from './yaml-file.ts'

/** A flow as defined in its file; `file` is relative to the folder of flows. */
export type LoadedFlow = { flow: Flow; file: string; definitionHash: string }

export type ReadFlow =
  /** `placeOf` gives the position of a part in the file. */
  { loaded: LoadedFlow; placeOf: YamlFile['placeOf'] } | { problems: FlowProblemView[] }

/** Creates the function that reads one flow file from its bytes. */
export function createFlowReader(
  context: FlowContext,
): (file: string, bytes: Uint8Array) => ReadFlow {
  const schema = flowSchema(context)
  return (file, bytes) => readFlow(file, bytes, schema, context)
}

function readFlow(
  file: string,
  bytes: Uint8Array,
  schema: ReturnType<typeof flowSchema>,
  context: FlowContext,
): ReadFlow {
  const refuse = (findings: readonly PlacedFinding[]) => ({
    problems: firstFindings(findings).map((finding) => problemOf(file, finding)),
  })
  const yaml = parseYamlFile(bytes)
  if ('findings' in yaml) return refuse(yaml.findings)
  if (yaml.value === null || typeof yaml.value !== 'object' || Array.isArray(yaml.value)) {
    const code = yaml.value === null ? 'FILE_EMPTY' : 'FILE_NO_GROUP'
    return refuse([{ key: '', line: 1, column: 1, why: { code } }])
  }
  const parsed = schema.safeParse(yaml.value)
  const findings = parsed.success
    ? ruleFindings(parsed.data, context)
    : schemaFindings(parsed.error.issues, yaml.value)
  if (!parsed.success || findings.length > 0) {
    const removed = removedFindings(yaml.value)
    const all = [...removed, ...besideRemoved(findings, removed)]
    return refuse(all.map((finding) => placed(finding, yaml)))
  }
  const flow = parsed.data
  return {
    loaded: { flow, file, definitionHash: definitionHash(flow) },
    placeOf: yaml.placeOf,
  }
}

/** A problem for display, with its English sentences. */
export function problemOf(file: string, { why, hint, ...place }: PlacedFinding): FlowProblemView {
  const { key, line, column } = place
  const sentences = problemTexts({ why, advice: hint }, 'en')
  return { file, line, column, key, ...sentences, why, advice: hint }
}

/** The problem of a valid definition that cannot be opened. */
export function openingProblem(file: string, error: unknown): FlowProblemView {
  const said = error instanceof Error ? error.message : String(error)
  const why: Reason =
    error instanceof ReasonError ? error.why : { code: 'DEFINITION_UNUSABLE', data: { said } }
  return problemOf(file, { line: 1, column: 1, key: '', why })
}

/** The sentences of a problem in a language. */
export function problemTexts(
  { why, advice }: Pick<FlowProblemView, 'why' | 'advice'>,
  language: Language,
): { message: string; hint: string | null } {
  const hint = advice ? sentenceOf(advice, language) : hintOf(why, language)
  return { message: sentenceOf(why, language), hint }
}

function placed({ path, isKey, offset, ...finding }: PathFinding, yaml: YamlFile): PlacedFinding {
  const part = { ...(isKey !== undefined && { isKey }), ...(offset !== undefined && { offset }) }
  return { ...finding, key: keyText(path), ...yaml.placeOf(path, part) }
}

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
      const meant = nearestWord(name, names)
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
