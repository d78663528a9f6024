import { hash } from 'node:crypto'
import { resolve } from 'node:path'
import type { Secret } from '../../domain/flow-secret.ts'
import { canonicalJson } from '../../domain/json.ts'
import { defaultPorts } from '../net/connection-limit.ts'
import type { Flow } from './schema.ts'

type Source = Flow['source']
type Destination = Flow['destinations'][number]

/**
 * Identifies a source independently of its name (SHA-256, hex): by type, origin, database, tables and path. Secrets, headers
 * and other parts of a query are ignored.
 */
export function sourceIdentity(source: Source): string {
  switch (source.type) {
    case 'sql':
      return hashed({
        type: ['sql', source.driver],
        database: databaseOf(source.driver, source.url),
        tables: tablesOf(source.query),
      })
    case 'http':
      return hashed({ type: 'http', address: addressOf(source.url), items: source.items })
    case 'file':
      return hashed({ type: 'file', path: resolve(source.path) })
    case 'sftp':
      return hashed({ type: 'sftp', address: addressOf(source.url), path: source.path })
    default:
      return hashed({ type: source.type, client: source.client })
  }
}

/** Like sourceIdentity, for a destination: by type, origin, database, table and path. */
export function destinationIdentity(destination: Destination): string {
  switch (destination.type) {
    case 'sql': {
      const { driver, url, table } = destination
      return hashed({ type: ['sql', driver], database: databaseOf(driver, url), table })
    }
    case 'http': {
      const { request, create, find = [], delete: remove, batch } = destination
      const [firstFind] = find
      const all = [request, create, ...find, remove, batch?.request]
      const origins = all.flatMap((one) => (one ? [originOf(one.url)] : []))
      return hashed({
        type: 'http',
        origins: [...new Set(origins)].sort(),
        paths: [request, create, firstFind].map((one) => one && addressOf(one.url)),
      })
    }
    case 'file':
      return hashed({ type: 'file', path: resolve(destination.path) })
    default:
      return hashed({ type: destination.type, client: destination.client })
  }
}

/** The identities of a flow's source and of its destinations by name. */
export function identitiesOf({ source, destinations }: Pick<Flow, 'source' | 'destinations'>): {
  source: string
  destinations: Readonly<Record<string, string>>
} {
  return {
    source: sourceIdentity(source),
    destinations: Object.fromEntries(
      destinations.map((one) => [one.name, destinationIdentity(one)]),
    ),
  }
}

function hashed(parts: object): string {
  return hash('sha256', canonicalJson(parts), 'hex')
}

function originOf(url: Secret): string {
  const parsed = URL.parse(url.reveal())
  return parsed ? `${parsed.protocol}//${parsed.host}` : url.template
}

function addressOf(url: Secret): string {
  const parsed = URL.parse(url.reveal())
  return parsed ? `${originOf(url)}${withoutVersions(parsed.pathname)}` : url.template
}

const version =
  /^(?:v\d+(?:[._]\d+)*(?:(?:alpha|beta|rc)\d*)?|\d+\.\d+|20\d\d-(?:0[1-9]|1[0-2])(?:-\d\d)?)$/i

/**
 * An address with the same text in place of each API version in its path: `v3`, `v2.1`, `1.1`, `2025-10`, `2025-10-01`. A
 * new version of an API is the same place.
 */
export function withoutVersions(address: string): string {
  const [path = ''] = address.split(/[?#]/, 1)
  const same = path.split('/').map((segment) => (version.test(segment) ? '{version}' : segment))
  return same.join('/') + address.slice(path.length)
}

/** Host, port and name of a database, from its URL or from a connection string of SQL Server. */
function databaseOf(driver: string, url: Secret): string[] {
  const address = url.reveal()
  const parsed = URL.parse(address)
  if (parsed?.host) {
    const { hostname, port, pathname, searchParams } = parsed
    const named = ['host', 'port', 'dbname', 'instanceName'].map(
      (name) => searchParams.get(name) ?? '',
    )
    return [hostname.toLowerCase(), port || (defaultPorts[driver] ?? ''), pathname, ...named]
  }
  const keys = /^(server|data source|addr|address|network address|database|initial catalog)$/
  return address
    .split(';')
    .map((part) => part.split('=').map((text) => text.trim().toLowerCase()))
    .flatMap(([key = '', value = '']) => (keys.test(key) ? [value] : []))
}

const identifier = String.raw`(?:"[^"]+"|[\x60][^\x60]+[\x60]|\[[^\]]+\]|[\p{L}_#][\p{L}\p{N}_$#]*)`
const tableName = String.raw`${identifier}(?:\s*\.\s*${identifier})*`
const inFrom = new RegExp(
  String.raw`\b(?:from|join|apply)\s+(${tableName}(?:(?:\s+(?:as\s+)?${identifier})?\s*,\s*${tableName})*)`,
  'giu',
)
const inWith = new RegExp(
  String.raw`(?:\bwith|,)\s+(?:recursive\s+)?(${identifier})\s+as\s*\(`,
  'giu',
)

/** The tables after FROM and JOIN in a query, without those that it defines itself. */
function tablesOf(query: string): string[] {
  const text = query.replace(/--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'/g, ' ')
  const plain = (name: string) => name.replace(/["`[\]\s]/g, '').toLowerCase()
  const own = new Set([...text.matchAll(inWith)].map(([, name = '']) => plain(name)))
  const named = [...text.matchAll(inFrom)].flatMap(([, list = '']) =>
    list
      .split(',')
      .map((one) => plain(new RegExp(`^\\s*(${tableName})`, 'u').exec(one)?.[1] ?? '')),
  )
  return [...new Set(named)].filter((name) => name !== '' && !own.has(name)).sort()
}
