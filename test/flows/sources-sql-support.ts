import { connect } from 'node:net'
import { Secret } from '../../src/domain/flow-secret.ts'
import type { Flow } from '../../src/flows/definition/schema.ts'
import { openSqlSource } from '../../src/flows/sources/sql.ts'
import type { SqlReader } from '../../src/flows/sources/sql-reader.ts'
import type { Source, SourceRow } from '../../src/flows/types.ts'

type SqlDefinition = Extract<Flow['source'], { type: 'sql' }>

/** A source as in a flow file, with the key field `id`; `read` replaces its driver. */
export function sqlSource(
  given: Pick<SqlDefinition, 'driver' | 'query'> & {
    url: string
    limits?: Partial<SqlDefinition['limits']>
    key?: string[]
    itemQuery?: string
    cursor?: SqlDefinition['cursor']
    timeZone?: string
    wakeOn?: string
    parameters?: Record<string, string | number>
    env?: Record<string, string>
  },
  read?: SqlReader,
): Source {
  const { url, limits, key = ['id'], itemQuery, cursor, env = {}, parameters, ...rest } = given
  const secrets = Object.entries(parameters ?? {}).map(([name, value]) => {
    const template = String(value)
    const reference = /^\$\{env:(\w+)\}$/.exec(template)?.[1]
    return [name, new Secret(reference ? (env[reference] ?? '') : template, template)]
  })
  const definition: SqlDefinition = {
    type: 'sql',
    ...rest,
    url: new Secret(url, '${' + 'env:X}'),
    limits: { timeoutMs: 20_000, fetchSize: 1_000, ...limits },
    fullScanEveryMs: 86_400_000,
    ...(itemQuery && { itemQuery }),
    ...(cursor && { cursor }),
    ...(parameters && { parameters: Object.fromEntries(secrets) }),
  } as SqlDefinition
  const hash: Flow['item']['hash'] = { ignore: [], trim: false, emptyAsNull: false, decimals: {} }
  return openSqlSource(definition, { flow: { item: { key, hash } } as Flow }, read)
}

const { signal } = new AbortController()

export async function readAll(source: Source, since: string | null = null): Promise<SourceRow[]> {
  const rows: SourceRow[] = []
  for await (const batch of source.scan({ since, signal })) rows.push(...batch)
  return rows
}

export const readItem = (source: Source, ...key: string[]) => source.readItem({ key, signal })

/** The URL; undefined, with a printed reason, when no server listens there. */
export async function reachable(url: string, what: string): Promise<string | undefined> {
  const { hostname, port } = new URL(url)
  const isOpen = await new Promise<boolean>((resolve) => {
    const socket = connect(Number(port), hostname)
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('close', () => socket.destroy()).setTimeout(2_000, () => socket.destroy())
    socket.once('connect', () => socket.destroy())
  })
  if (!isOpen) process.stdout.write(`skipped: no ${what} at ${hostname}:${port}\n`)
  return isOpen ? url : undefined
}
