import { lookup as resolve } from 'node:dns'
import { connect, type LookupFunction, type Socket } from 'node:net'
import { Agent, buildConnector } from 'undici'
import { ReasonError } from '../texts/reason.ts'
import {
  type AddressClass,
  type AddressPolicy,
  classOfLiteral,
  isMetadataName,
} from './address-class.ts'

export type { AddressPolicy } from './address-class.ts'

/** The policy of flows forbids this address. `message` names at most the host. */
export class RefusedAddressError extends ReasonError {
  override readonly name = 'RefusedAddressError'
}

type GuardedAgentOptions = AddressPolicy & {
  /** Longest time for name resolution, connection and TLS; 10,000 when absent. */
  connectTimeoutMs?: number
  /** Connections per origin; no limit when absent. */
  connections?: number
  /** Replaces the operating system's resolver. */
  lookup?: LookupFunction
}

/**
 * Separate connections for all HTTP calls of flows. A literal address is checked before the connection, a name by every
 * address that it resolves to. The connection goes to one of the checked addresses, without a second DNS query.
 * Redirects are not followed and no proxy is used. A refusal is a RefusedAddressError.
 */
export function createGuardedAgent(options: GuardedAgentOptions): Agent {
  const dialWith = (policy: AddressPolicy) =>
    buildConnector({
      timeout: options.connectTimeoutMs ?? 10_000,
      allowH2: false,
      lookup: guardedLookup(policy, options.lookup ?? resolve),
    })
  const dial = dialWith({ allowPrivateNetwork: options.allowPrivateNetwork })
  const dialPrivate = dialWith({ allowPrivateNetwork: true })
  const connect: buildConnector.connector = (target, callback) => {
    const port = target.port || (target.protocol === 'https:' ? '443' : '80')
    const policy = policyOfHost({ host: target.hostname, port }, options)
    // undici and node:net call `lookup` only for names.
    const refusal = refusalOfHost(target.hostname, policy)
    if (refusal) callback(refusal, null)
    else (policy.allowPrivateNetwork ? dialPrivate : dial)(target, callback)
  }
  return new Agent({
    connect,
    allowH2: false,
    ...(options.connections !== undefined && { connections: options.connections }),
  })
}

/**
 * A plain connection to a host, with the checks of the agent; for protocols other than HTTP. Rejects with
 * RefusedAddressError, with the system's error, or with the reason of the signal.
 */
export async function dialGuarded(
  { host, port }: { host: string; port: number },
  options: AddressPolicy & { lookup?: LookupFunction | undefined },
  signal: AbortSignal,
): Promise<Socket> {
  signal.throwIfAborted()
  const policy = policyOfHost({ host, port }, options)
  const refusal = refusalOfHost(host, policy)
  if (refusal) throw refusal
  const socket = connect({
    host: host.replace(/^\[(.*)\]$/, '$1'),
    port,
    lookup: guardedLookup(policy, options.lookup ?? resolve),
  })
  const { promise, resolve: done, reject } = Promise.withResolvers<void>()
  const onAbort = () => reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  socket.once('connect', done).once('error', reject)
  try {
    await promise
    // A request is one small packet, which must not wait for the next.
    socket.setNoDelay(true)
    return socket
  } catch (error) {
    socket.on('error', () => undefined).destroy()
    throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
    socket.off('error', reject)
  }
}

/** Why the host of an address is refused; names are checked when they are resolved. */
export function refusalOfHost(host: string, policy: AddressPolicy): RefusedAddressError | null {
  if (isMetadataName(host)) return refusal(host, 'never')
  const found = classOfLiteral(host)
  return found && isRefused(found, policy) ? refusal(host, found) : null
}

/** The policy for one host and port: a named exception counts there only. */
export function policyOfHost(
  { host, port }: { host: string; port: number | string },
  { allowPrivateNetwork, privateHosts = [] }: AddressPolicy,
): AddressPolicy {
  const isNamed = privateHosts.includes(`${host.toLowerCase()}:${port}`)
  return { allowPrivateNetwork: allowPrivateNetwork || isNamed }
}

function guardedLookup(policy: AddressPolicy, lookup: LookupFunction): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, answer) => {
      if (error) return callback(error, [])
      // One refused address refuses the name: an answer with mixed ranges is an attack or a mistake.
      const addresses = Array.isArray(answer) ? answer : []
      for (const { address } of addresses) {
        const found = classOfLiteral(address) ?? 'never'
        if (isRefused(found, policy)) return callback(refusal(hostname, found), [])
      }
      const first = addresses[0]
      if (!first)
        return callback(
          new RefusedAddressError({ code: 'NO_ADDRESS', data: { host: hostname } }),
          [],
        )
      if (options.all) callback(null, addresses)
      else callback(null, first.address, first.family)
    })
  }
}

function isRefused(found: AddressClass, policy: AddressPolicy): boolean {
  return found === 'never' || (found === 'private' && !policy.allowPrivateNetwork)
}

function refusal(host: string, found: AddressClass): RefusedAddressError {
  const code = found === 'never' ? 'METADATA_ADDRESS' : 'PRIVATE_ADDRESS'
  return new RefusedAddressError({ code, data: { host } })
}
