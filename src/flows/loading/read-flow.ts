import { isDeepStrictEqual } from 'node:util'
import { isRecord } from '../../domain/json.ts'
import type { FlowProblemView } from '../api/control-types.ts'
import { hasOwnPlaces } from '../definition/browser-edits.ts'
import { nearestWord } from '../definition/did-you-mean.ts'
import {
  firstFindings,
  type Path,
  type PathFinding,
  type PlacedFinding,
} from '../definition/findings.ts'
import type { FlowContext } from '../definition/flow-context.ts'
import { type Connections, loadConnections } from '../definition/named-connections.ts'
import { problemOf } from '../definition/problem-view.ts'
import { type Flow, flowSchema } from '../definition/schema.ts'
import { schemaFindings } from '../definition/schema-findings.ts'
import { useConnections } from '../definition/use-connections.ts'
import { parseYamlFile, placeFinding, type YamlFile } from '../definition/yaml-file.ts'
import { definitionHash } from '../item/definition-hash.ts'
import { addressFindings } from './rules-addresses.ts'
import { destinationFindings } from './rules-destinations.ts'
import { expressionFindings } from './rules-expressions.ts'
import { sourceFindings } from './rules-source.ts'

/** A flow as defined in its file; `file` is relative to the folder of flows. */
export type LoadedFlow = {
  flow: Flow
  file: string
  definitionHash: string
  /** A part has an address, path or reference of its own, which the browser cannot change. */
  hasOwnPlaces: boolean
}

export type ReadFlow =
  /** `placeOf` gives the position of a part in the file. */
  { loaded: LoadedFlow; placeOf: YamlFile['placeOf'] } | { problems: FlowProblemView[] }

/** Creates the function that reads one flow file from its bytes. Connections are read once, here, unless they are given. */
export function createFlowReader(
  context: FlowContext,
  connections: Connections = loadConnections(context),
): (file: string, bytes: Uint8Array) => ReadFlow {
  const schema = flowSchema(context)
  return (file, bytes) => readFlow(file, bytes, { schema, context, connections })
}

function readFlow(
  file: string,
  bytes: Uint8Array,
  {
    schema,
    context,
    connections,
  }: { schema: ReturnType<typeof flowSchema>; context: FlowContext; connections: Connections },
): ReadFlow {
  const refuse = (findings: readonly PlacedFinding[]) => ({
    problems: firstFindings(findings).map((finding) => problemOf(file, finding)),
  })
  const yaml = parseYamlFile(bytes)
  if ('findings' in yaml) return refuse(yaml.findings)
  if (!isRecord(yaml.value)) {
    const code = yaml.value === null ? 'FILE_EMPTY' : 'FILE_NO_GROUP'
    return refuse([{ key: '', line: 1, column: 1, why: { code } }])
  }
  const connected = useConnections(yaml.value, connections)
  const parsed = schema.safeParse(connected.value)
  const flow = parsed.success
    ? {
        ...parsed.data,
        reach: { ...connected.reach, forbidden: context.own?.folders ?? [] },
      }
    : undefined
  const others = flow
    ? ruleFindings(flow, context)
    : schemaFindings(parsed.error?.issues ?? [], connected.value)
  // Without its connection, a part lacks keys for this reason alone.
  const isOfUnconnected = ({ path }: PathFinding) =>
    connected.findings.some(({ path: at }) => isDeepStrictEqual(partOf(at), partOf(path)))
  const findings = [...connected.findings, ...others.filter((finding) => !isOfUnconnected(finding))]
  if (!flow || findings.length > 0) {
    return refuse(
      findings.map((finding) =>
        placeFinding({ ...finding, path: connected.writtenAt(finding.path) }, yaml),
      ),
    )
  }
  return {
    loaded: {
      flow,
      file,
      definitionHash: definitionHash(flow),
      hasOwnPlaces: hasOwnPlaces(yaml.value),
    },
    placeOf: yaml.placeOf,
  }
}

/** The source, one destination or one receiver of alerts that a path leads into. */
function partOf(path: Path): Path {
  const lengths: Readonly<Record<string, number>> = { destinations: 2, alerts: 3 }
  return path.slice(0, lengths[String(path[0])] ?? 1)
}

/** Findings of a well-formed flow: contradictions between keys, and expressions. */
function ruleFindings(flow: Flow, context: FlowContext): PathFinding[] {
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
