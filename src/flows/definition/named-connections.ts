import { basename } from 'node:path'
import { z } from 'zod'
import type { Secret } from '../../domain/flow-secret.ts'
import { isRecord } from '../../domain/json.ts'
import { GuardedFileError, readGuardedFile } from '../../files/read-regular-file.ts'
import type { FlowProblemView } from '../api/control-types.ts'
import { hasDots } from '../net/path-segments.ts'
import { checkDatabase, databaseUrl, headers, httpUrl, sourceDriver } from './addresses.ts'
import { alertChannel } from './alert-schema.ts'
import { contextSchema } from './context-schema.ts'
import { firstFindings, type PathFinding } from './findings.ts'
import { type FlowContext, isOwnPlace } from './flow-context.ts'
import { signing } from './http-destination-schema.ts'
import { grantFindings, oauth } from './oauth-schema.ts'
import { problemOf } from './problem-view.ts'
import { portsOfSchemes } from './reach.ts'
import { schemaFindings } from './schema-findings.ts'
import { checkSftpAccess, sftpAccess } from './sftp-source-schema.ts'
import { findingMessage, report, secretText } from './value-schemas.ts'
import { maxFlowFileBytes, parseYamlFile, placeFinding } from './yaml-file.ts'

export const connectionTypes = [
  'sql',
  'http',
  'sftp',
  'folder',
  'email',
  'slack',
  'webhook',
] as const
export type ConnectionType = (typeof connectionTypes)[number]

/** What flows may reach by a name: an address with its credentials, or a folder. The administrator writes it. */
export type Connection = {
  name: string
  type: ConnectionType
  /** As written, with references. It stands in for the keys of a flow that uses the connection. */
  written: Readonly<Record<string, unknown>>
  /** The place without credentials, for people: host and database, or a folder. */
  place: string
  /** `host:port` of its addresses, where it opens private networks. */
  privateHosts: readonly string[]
}

export type Connections = {
  byName: ReadonlyMap<string, Connection>
  /** Names of connections with a problem. Flows that use one are not loaded. */
  unusable: ReadonlySet<string>
  problems: readonly FlowProblemView[]
}

const connectionName = /^[a-z0-9][a-z0-9_-]{0,63}$/

const privateNetwork = () =>
  z
    .boolean()
    .prefault(false)
    .describe('its addresses may be loopback or private; link-local and metadata never')

const baseUrl = (context: FlowContext) =>
  httpUrl(context).superRefine((url, issues) => {
    const { search, hash } = URL.parse(url.reveal()) ?? {}
    if (search || hash) report(issues, { code: 'BASE_WITH_QUERY' })
  })

function folderPath(context: FlowContext) {
  return secretText(context, (template, value) => {
    // Paths are displayed, so they must not contain a secret.
    if (template.includes('$' + '{file:')) return { why: { code: 'REFERS_TO_FILE' } }
    if (/[*{}]/.test(value)) return { why: { code: 'MUST_BE_FOLDER' } }
    return isOwnPlace(value, context) ? { why: { code: 'PLACE_OF_SERVICE' } } : undefined
  })
}

function connectionSchema(context: FlowContext) {
  return z.discriminatedUnion('type', [
    z
      .strictObject({
        type: z.literal('sql'),
        driver: sourceDriver(),
        url: databaseUrl(context),
      })
      .superRefine(checkDatabase),
    z.strictObject({
      type: z.literal('http'),
      url: baseUrl(context).describe('flows write paths below it'),
      headers: headers(context).prefault({}),
      auth: oauth(context),
      sign: signing(context),
      allowPrivateNetwork: privateNetwork(),
    }),
    z
      .strictObject({
        type: z.literal('sftp'),
        ...sftpAccess(context),
        path: secretText(context, (_, value) =>
          value.startsWith('/') && !/[*{}]/.test(value) && !hasDots(value)
            ? undefined
            : { why: { code: 'MUST_BE_FOLDER' } },
        ).describe('the folder of the server below which flows read'),
        allowPrivateNetwork: privateNetwork(),
      })
      .superRefine(checkSftpAccess),
    z.strictObject({
      type: z.literal('folder'),
      path: folderPath(context).describe('flows read and write below it'),
    }),
    ...alertChannel(context, { allowPrivateNetwork: privateNetwork() }),
  ])
}

const oneConnection = contextSchema(connectionSchema)

const allConnections = contextSchema((context) =>
  z.strictObject({
    version: z.literal(1),
    connections: z.record(
      z.string().regex(connectionName, findingMessage({ code: 'MUST_BE_FLOW_NAME' })),
      connectionSchema(context),
    ),
  }),
)

type Parsed = z.output<ReturnType<typeof connectionSchema>>

const none: Connections = { byName: new Map(), unusable: new Set(), problems: [] }

/** Reads the connections of the administrator. A missing file counts as empty. A wrong connection does not affect the others. */
export function loadConnections(context: FlowContext): Connections {
  const path = context.connectionsFile
  if (path === undefined) return none
  const file = basename(path)
  const refused = (findings: Parameters<typeof firstFindings>[0]): Connections => ({
    ...none,
    problems: firstFindings(findings).map((finding) => problemOf(file, finding)),
  })
  let bytes: Buffer
  try {
    bytes = readGuardedFile(path, { maxBytes: maxFlowFileBytes })
  } catch (error) {
    if (!(error instanceof GuardedFileError)) throw error
    return error.code === 'ENOENT'
      ? none
      : refused([{ key: '', line: 1, column: 1, why: error.why }])
  }
  const yaml = parseYamlFile(bytes)
  if ('findings' in yaml) return refused(yaml.findings)
  if (!isRecord(yaml.value))
    return refused([{ key: '', line: 1, column: 1, why: { code: 'FILE_NO_GROUP' } }])

  const written = isRecord(yaml.value.connections) ? yaml.value.connections : {}
  const parsed = allConnections.within(context).safeParse(yaml.value)
  const findings: PathFinding[] = parsed.success
    ? Object.entries(parsed.data.connections).flatMap(([name, one]) =>
        one.type === 'http' ? grantFindings(one.auth, ['connections', name]) : [],
      )
    : schemaFindings(parsed.error.issues, yaml.value)
  const unusable = new Set(
    findings.map(({ path: [, name] }) => String(name ?? '')).filter((name) => name in written),
  )
  const schema = oneConnection.within(context)
  const byName = new Map<string, Connection>()
  for (const [name, given] of Object.entries(written)) {
    const one = unusable.has(name) ? undefined : schema.safeParse(given).data
    if (one && isRecord(given)) byName.set(name, connectionOf(name, given, one))
  }
  const problems = firstFindings(findings.map((finding) => placeFinding(finding, yaml))).map(
    (finding) => problemOf(file, finding),
  )
  return { byName, unusable, problems }
}

function connectionOf(
  name: string,
  written: Readonly<Record<string, unknown>>,
  one: Parsed,
): Connection {
  const urls = 'url' in one ? [one.url] : []
  if (one.type === 'http' && one.auth) urls.push(one.auth.tokenUrl)
  const isPrivate = 'allowPrivateNetwork' in one && one.allowPrivateNetwork
  return {
    name,
    type: one.type,
    written,
    place: placeOf(one),
    privateHosts: isPrivate ? urls.flatMap(hostAndPort) : [],
  }
}

/** The place of a connection without user, password, path of a secret address, or query. */
function placeOf(one: Parsed): string {
  switch (one.type) {
    case 'folder':
      return one.path.reveal()
    case 'email':
      return one.to.join(', ')
    case 'http':
      return URL.parse(one.url.reveal())?.origin ?? ''
    case 'slack':
    case 'webhook':
      return URL.parse(one.url.reveal())?.host ?? ''
    case 'sftp':
      return `${URL.parse(one.url.reveal())?.host ?? ''}${one.path.reveal()}`
    case 'sql': {
      const { host = '', pathname = '' } = URL.parse(one.url.reveal()) ?? {}
      return `${one.driver} ${host}${pathname}`
    }
  }
}

function hostAndPort(url: Secret): string[] {
  const parsed = URL.parse(url.reveal())
  if (!parsed) return []
  return [`${parsed.hostname.toLowerCase()}:${parsed.port || portsOfSchemes[parsed.protocol]}`]
}
