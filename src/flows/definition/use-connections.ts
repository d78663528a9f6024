import { join, resolve } from 'node:path'
import { isRecord } from '../../domain/json.ts'
import { hasDots } from '../net/path-segments.ts'
import { nearestWord } from './did-you-mean.ts'
import type { Path, PathFinding } from './findings.ts'
import type { Connection, Connections, ConnectionType } from './named-connections.ts'
import { emptyReach, type Reach } from './reach.ts'

/** A flow file in which connections are replaced by their addresses and credentials. */
type ConnectedFile = {
  value: unknown
  findings: PathFinding[]
  reach: Omit<Reach, 'forbidden'>
  /** The key of the file from which the key at this path was made; the path itself for others. */
  writtenAt(path: Path): Path
}

type Group = Readonly<Record<string, unknown>>

/** The type of connection that a source or a destination uses. */
const typeOfPart: Readonly<Record<string, ConnectionType>> = {
  sql: 'sql',
  http: 'http',
  sftp: 'sftp',
  file: 'folder',
}
const alertTypes: readonly ConnectionType[] = ['email', 'slack', 'webhook']

/** Keys of a flow that only a connection may give. */
const keysOf: Readonly<Record<ConnectionType, readonly string[]>> = {
  sql: ['driver', 'url'],
  http: ['url', 'auth', 'sign'],
  sftp: ['url', 'hostKey', 'password', 'privateKey', 'passphrase'],
  folder: [],
  email: ['to', 'locale'],
  slack: ['url'],
  webhook: ['url', 'secret'],
}

/** Requests of an HTTP part; each takes `path` below the base address of the connection. */
const requestsOfSource: readonly Path[] = [['item']]
const requestsOfDestination: readonly Path[] = [
  ['request'],
  ['create'],
  ['delete'],
  ['batch', 'request'],
]

/**
 * Replaces `connection: name` in the source, the destinations and the alerts by the address and credentials of the
 * administrator's connection, and `path` by an address or file below it. Everything else stays as written.
 */
export function useConnections(file: unknown, known: Connections): ConnectedFile {
  return new ConnectionReplacer(known).replace(file)
}

class ConnectionReplacer {
  readonly #known: Connections
  readonly #findings: PathFinding[] = []
  readonly #made = new Map<string, Path>()
  readonly #privateHosts = new Set<string>()
  readonly #folders: Record<string, string> = {}
  readonly #connections: Record<string, string> = {}

  constructor(known: Connections) {
    this.#known = known
  }

  replace(file: unknown): ConnectedFile {
    const value = isRecord(file)
      ? {
          ...file,
          ...('source' in file && { source: this.#connectPart(file.source, ['source'], 'source') }),
          ...(Array.isArray(file.destinations) && {
            destinations: file.destinations.map((one: unknown, index) =>
              this.#connectPart(
                one,
                ['destinations', index],
                String(isRecord(one) ? one.name : index),
              ),
            ),
          }),
          ...replacedAlerts(file, (channel, at) => this.#connectAlert(channel, at)),
        }
      : file
    return {
      value,
      findings: this.#findings,
      reach: {
        ...emptyReach,
        privateHosts: [...this.#privateHosts].sort(),
        folders: this.#folders,
        connections: this.#connections,
      },
      writtenAt: (path) => {
        for (let length = path.length; length > 0; length -= 1) {
          const from = this.#made.get(pathKey(path.slice(0, length)))
          if (from) return from
        }
        return path
      },
    }
  }

  #report(path: Path, why: PathFinding['why'], isKey = false) {
    this.#findings.push({ path, why, ...(isKey && { isKey }) })
  }

  #find(part: Group, at: Path, types: readonly ConnectionType[]): Connection | undefined {
    const path = [...at, 'connection']
    const { connection: name } = part
    if (typeof name !== 'string') {
      this.#report(path, { code: 'MUST_BE_FLOW_NAME' })
      return undefined
    }
    const known = this.#known.byName.get(name)
    if (known && types.includes(known.type)) {
      for (const host of known.privateHosts) this.#privateHosts.add(host)
      return known
    }
    if (known) {
      const data = { name, type: known.type, needed: types.join(', ') }
      this.#report(path, { code: 'CONNECTION_OF_OTHER_TYPE', data })
    } else if (this.#known.unusable.has(name))
      this.#report(path, { code: 'CONNECTION_UNUSABLE', data: { name } })
    else {
      const meant = nearestWord(name, [...this.#known.byName.keys()])
      this.#report(path, { code: 'CONNECTION_UNKNOWN', data: { name, meant } })
    }
    return undefined
  }

  /** The part with the connection's keys in place of its own. */
  #connect(part: Group, at: Path, { name, type, written }: Connection): Group {
    const { connection, ...rest } = part
    for (const key of keysOf[type]) {
      if (!(key in rest)) continue
      this.#report([...at, key], { code: 'KEY_OF_CONNECTION', data: { name } }, true)
    }
    const given = Object.fromEntries(keysOf[type].map((key) => [key, written[key]]))
    const present = Object.entries(given).filter(([, value]) => value !== undefined)
    for (const [key] of present) this.#made.set(pathKey([...at, key]), [...at, 'connection'])
    return { ...rest, ...Object.fromEntries(present) }
  }

  #headersWith(given: unknown, at: Path, { name, written }: Connection): unknown {
    const own = isRecord(written.headers) ? written.headers : {}
    if (given !== undefined && !isRecord(given)) return given
    const taken = new Set([...Object.keys(own).map((header) => header.toLowerCase()), 'host'])
    for (const header of Object.keys(given ?? {})) {
      if (!taken.has(header.toLowerCase())) continue
      this.#report([...at, 'headers', header], { code: 'KEY_OF_CONNECTION', data: { name } }, true)
    }
    return { ...given, ...own }
  }

  /** A request below the base address. */
  #requestBelow(request: unknown, at: Path, connection: Connection, plain = false): unknown {
    if (!isRecord(request)) return request
    const { path = '', ...rest } = request
    if ('url' in rest) {
      this.#report(
        [...at, 'url'],
        { code: 'KEY_OF_CONNECTION', data: { name: connection.name } },
        true,
      )
    }
    this.#made.set(pathKey([...at, 'url']), [...at, 'path'])
    if (typeof path !== 'string' || !isBelow(path)) {
      this.#report([...at, 'path'], { code: 'PATH_NOT_BELOW', data: { placeholder: '{pk}' } })
      return rest
    }
    const url = `${String(connection.written.url).replace(/\/+$/, '')}${path}`
    return {
      ...rest,
      url,
      ...(!plain && { headers: this.#headersWith(rest.headers, at, connection) }),
    }
  }

  #httpPart(part: Group, at: Path, connection: Connection, isSource: boolean): unknown {
    const { url: _, sign, ...connected } = this.#connect(part, at, connection)
    // Only deliveries are signed. The read of one item uses the headers of the source.
    let whole: unknown = isSource
      ? this.#requestBelow(connected, at, connection)
      : { ...connected, ...(sign !== undefined && { sign }) }
    for (const path of isSource ? requestsOfSource : requestsOfDestination) {
      whole = replaceAt(whole, path, (request) =>
        this.#requestBelow(request, [...at, ...path], connection, isSource),
      )
    }
    return replaceAt(whole, ['find'], (find) =>
      Array.isArray(find)
        ? find.map((one, index) => this.#requestBelow(one, [...at, 'find', index], connection))
        : this.#requestBelow(find, [...at, 'find'], connection),
    )
  }

  #filePart(part: Group, at: Path, connection: Connection, key: string): unknown {
    const { connection: _, ...rest } = part
    if (typeof rest.path !== 'string' || !isBelowFolder(rest.path)) {
      this.#report([...at, 'path'], { code: 'FILE_NOT_BELOW' })
      return rest
    }
    if (connection.type !== 'folder') {
      const base = String(connection.written.path).replace(/\/+$/, '')
      return { ...rest, path: `${base}/${rest.path}` }
    }
    const folder = resolve(connection.place)
    this.#folders[key] = folder
    return { ...rest, path: join(folder, rest.path) }
  }

  #connectPart(part: unknown, at: Path, key: string): unknown {
    if (!isRecord(part) || part.connection === undefined) return part
    const needed = typeOfPart[String(part.type)]
    if (needed === undefined) {
      this.#report(
        [...at, 'connection'],
        { code: 'CONNECTION_NOT_USED', data: { type: String(part.type) } },
        true,
      )
      return part
    }
    const connection = this.#find(part, at, [needed])
    if (!connection) return part
    this.#connections[key] = connection.name
    switch (needed) {
      case 'http':
        return this.#httpPart(part, at, connection, at[0] === 'source')
      case 'folder':
        return this.#filePart(part, at, connection, key)
      case 'sftp':
        return this.#connect(
          this.#filePart({ ...part }, at, connection, key) as Group,
          at,
          connection,
        )
      default:
        return this.#connect(part, at, connection)
    }
  }

  #connectAlert(channel: unknown, at: Path): unknown {
    if (!isRecord(channel) || channel.connection === undefined) return channel
    if ('type' in channel) this.#report([...at, 'type'], { code: 'TYPE_OF_CONNECTION' }, true)
    const connection = this.#find(channel, at, alertTypes)
    return connection
      ? { ...this.#connect(channel, at, connection), type: connection.type }
      : channel
  }
}

function replaceAt(part: unknown, path: Path, change: (value: unknown) => unknown): unknown {
  const [step, ...rest] = path
  if (step === undefined) return change(part)
  if (!isRecord(part) || part[step] === undefined) return part
  return { ...part, [step]: replaceAt(part[step], rest, change) }
}

function replacedAlerts(
  { alerts }: Group,
  change: (channel: unknown, at: Path) => unknown,
): { alerts?: Group } {
  if (!isRecord(alerts) || !Array.isArray(alerts.onJobFailed)) return {}
  const onJobFailed = alerts.onJobFailed.map((channel: unknown, index) =>
    change(channel, ['alerts', 'onJobFailed', index]),
  )
  return { alerts: { ...alerts, onJobFailed } }
}

/**
 * Whether a path of a request stays below the base address whatever a placeholder holds: no other host, no way up, no slash
 * in another spelling. Values in placeholders are encoded and checked when they are filled in.
 */
function isBelow(path: string): boolean {
  const [own = ''] = path.split('?', 1)
  if (own !== '' && !own.startsWith('/')) return false
  return !/\/\/|[\\#\s]|%(25|2f|5c)/i.test(own) && !path.includes('#') && !hasDots(own)
}

/** Whether a path of a file stays below the folder. */
function isBelowFolder(path: string): boolean {
  return path !== '' && !/^[/\\]|^[a-z]:|[\0\n\r]/i.test(path) && !hasDots(path)
}

function pathKey(path: Path): string {
  return JSON.stringify(path)
}
