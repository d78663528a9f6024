import { addressPolicyOf } from '../../outbound/address-class.ts'
import { createGuardedAgent } from '../../outbound/guarded-agent.ts'
import { guardedRequest } from '../../outbound/guarded-request.ts'
import type { Reason } from '../../texts/reason.ts'
import type { FlowContext } from '../definition/flow-context.ts'
import type { Connection } from '../definition/named-connections.ts'
import { fenceOf } from '../definition/reach.ts'
import type { Flow } from '../definition/schema.ts'
import { createFlowReader } from '../loading/read-flow.ts'
import { secretsOf } from '../net/mask-secrets.ts'
import { openTokens } from '../oauth/access-tokens.ts'
import { localFiles } from '../sources/file-local.ts'
import { openSource } from '../sources/open-source.ts'
import { sftpFiles } from '../sources/sftp-files.ts'
import type { SourceContext } from '../sources/source-context.ts'
import { describe } from '../sources/source-failures.ts'

export type ConnectionTest = { ok: boolean; what: Reason }

type Deps = Pick<SourceContext, 'now' | 'log' | 'grants' | 'ownDatabase'> & {
  files: FlowContext
  feeds: SourceContext['payments']
  /** Sends a message to the receivers of a flow. */
  testAlerts(flow: Flow): Promise<readonly { ok: boolean; why?: Reason }[]>
}

const timeoutMs = 10_000

/**
 * Tries a connection as a flow would use it: a query that reads one row, a request for the base address, the files of the
 * folder, or a message to the receiver. Nothing is written but that message. `what` holds no secret.
 */
export async function testConnection(
  connection: Connection,
  deps: Deps,
  callerSignal: AbortSignal,
): Promise<ConnectionTest> {
  const flow = flowWith(connection, deps.files)
  if ('why' in flow) return { ok: false, what: flow.why }
  const signal = AbortSignal.any([callerSignal, AbortSignal.timeout(timeoutMs)])
  const { source } = flow
  try {
    if (source.type === 'sql') return await readOneRow(flow, deps, signal)
    if (source.type === 'http') return await requestBase(flow, source, deps, signal)
    if (source.type === 'file' || source.type === 'sftp') {
      const store =
        source.type === 'file'
          ? localFiles(source.path, fenceOf(flow, 'source'))
          : sftpFiles(source, { ...deps, flow })
      const access = store.access(signal)
      try {
        await access.find()
        return good({ code: 'CONNECTION_FOLDER' })
      } finally {
        await access.close()
      }
    }
    const [sent] = await deps.testAlerts(flow)
    return sent?.ok
      ? good({ code: 'CONNECTION_SENT' })
      : { ok: false, what: sent?.why ?? { code: 'UNKNOWN_FAILURE' } }
  } catch (error) {
    callerSignal.throwIfAborted()
    const isLate = signal.aborted
    return {
      ok: false,
      what: isLate
        ? { code: 'SILENT', data: { ms: timeoutMs } }
        : describe(error, secretsOfFlow(flow)),
    }
  }
}

const good = (what: Reason): ConnectionTest => ({ ok: true, what })

/** The smallest flow that uses the connection. */
function flowWith(
  { name, type, written }: Connection,
  context: FlowContext,
): Flow | { why: Reason } {
  const table = written.driver === 'firebird' ? ' from rdb$database' : ''
  const sources: Readonly<Record<string, object>> = {
    sql: { type: 'sql', connection: name, query: `select 1 as ok${table}` },
    http: { type: 'http', connection: name },
    folder: { type: 'file', connection: name, path: '*.none', format: 'csv' },
    sftp: { type: 'sftp', connection: name, path: '*.none', format: 'csv', settle: '0s' },
  }
  const source = sources[type]
  const definition = {
    version: 1,
    name: 'connection-test',
    pollInterval: '24h',
    source: source ?? { type: 'payments.orders' },
    item: { key: 'ok' },
    destinations: [{ name: 'none', type: 'payments.pos', client: 'none' }],
    ...(!source && { alerts: { onJobFailed: [{ connection: name }] } }),
  }
  const read = createFlowReader(context)('test.flow.yaml', Buffer.from(JSON.stringify(definition)))
  if ('loaded' in read) return read.loaded.flow
  return { why: read.problems[0]?.why ?? { code: 'CONNECTION_UNUSABLE', data: { name } } }
}

async function readOneRow(flow: Flow, deps: Deps, signal: AbortSignal): Promise<ConnectionTest> {
  const source = openSource({ ...deps, flow, payments: deps.feeds })
  try {
    for await (const _ of source.scan({ since: null, signal })) break
    return good({ code: 'CONNECTION_ANSWERS' })
  } finally {
    await source.close()
  }
}

async function requestBase(
  flow: Flow,
  source: Extract<Flow['source'], { type: 'http' }>,
  deps: Deps,
  signal: AbortSignal,
): Promise<ConnectionTest> {
  const agent = createGuardedAgent(addressPolicyOf(flow))
  try {
    const usedBy = { flow: flow.name, destination: 'source' }
    const tokens = source.auth && openTokens(source.auth, deps.grants, { agent, timeoutMs, usedBy })
    const headers = Object.fromEntries(
      Object.entries(source.headers).map(([header, value]) => [
        header.toLowerCase(),
        value.reveal(),
      ]),
    )
    if (tokens) headers.authorization = `Bearer ${await tokens.get()}`
    const { status } = await guardedRequest({
      ...{ agent, method: 'GET', url: source.url.reveal(), headers, timeoutMs, signal },
      mayCut: true,
    })
    // A base address need not be a resource: 404 shows as well that the server answers.
    const isRefused = status === 401 || status === 403 || status >= 500
    return { ok: !isRefused, what: { code: 'CONNECTION_STATUS', data: { status } } }
  } finally {
    await agent.destroy()
  }
}

function secretsOfFlow({ source }: Flow): string[] {
  return source.type === 'http' ? secretsOf(source) : []
}
