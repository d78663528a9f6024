import type { FlowProblemView } from '../flow-service.ts'
import type { FlowContext } from './context.ts'
import { definitionHash } from './definition-hash.ts'
import { keyText, type PathFinding, type PlacedFinding } from './findings.ts'
import { besideRemoved, removedFindings } from './removed-keys.ts'
import { ruleFindings } from './rules.ts'
import { type Flow, flowSchema } from './schema.ts'
import { schemaFindings } from './schema-findings.ts'
import { parseYamlFile, type YamlFile } from './yaml-file.ts'

/** A flow as its file defines it; `file` is relative to the folder of the flows. */
export type LoadedFlow = { flow: Flow; file: string; definitionHash: string }

export type ReadFlow =
  /** `placeOf` says where a part of it stands in the file. */
  { loaded: LoadedFlow; placeOf: YamlFile['placeOf'] } | { problems: FlowProblemView[] }

/** A wrong file may be wrong in every line; the first ones tell enough. */
const maxProblems = 50

/** Makes the function that reads one flow file from its bytes. */
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
    problems: findings
      .toSorted((left, right) => left.line - right.line || left.column - right.column)
      .slice(0, maxProblems)
      .map((finding) => problemOf(file, finding)),
  })
  const yaml = parseYamlFile(bytes)
  if ('findings' in yaml) return refuse(yaml.findings)
  if (yaml.value === null || typeof yaml.value !== 'object' || Array.isArray(yaml.value)) {
    const message = yaml.value === null ? 'is empty' : 'is not a group of keys'
    const hint = 'a flow file begins with version: 1 and name: …'
    return refuse([{ key: '', line: 1, column: 1, message, hint }])
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

/** A problem as it is shown to people. */
export function problemOf(file: string, { hint, ...finding }: PlacedFinding): FlowProblemView {
  const { key, line, column, message } = finding
  return { file, line, column, key, message, hint: hint ?? null }
}

function placed({ path, isKey, offset, ...finding }: PathFinding, yaml: YamlFile): PlacedFinding {
  const part = { ...(isKey !== undefined && { isKey }), ...(offset !== undefined && { offset }) }
  return { ...finding, key: keyText(path), ...yaml.placeOf(path, part) }
}
