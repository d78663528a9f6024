import { BlockList, isIPv6, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import ipaddr from 'ipaddr.js'
import { AppError } from '../errors/app-error.ts'

/** Which requests run on which socket, and which sockets never carried one. */
export type Connections = {
  requestsOn(socket: Socket): ReadonlySet<FastifyRequest>
  destroyUnused(): void
}

export type ConnectionLimits = {
  /** Open connections of the listener. */
  total: number
  /** Of one IPv4 address or IPv6 /64, trusted proxies apart. */
  perAddress: number
}

/** The sockets of one address; those without a running request also in `idle`, the longest idle first. */
type Group = { sockets: Set<Socket>; idle: Set<Socket> }

const none: ReadonlySet<FastifyRequest> = new Set()

/**
 * Must be called before any other hook is added, so that no request is missed.
 *
 * Keeps the number of connections within the limits. Kept-alive ones that nobody uses go first, so one caller who
 * opens thousands takes nothing from the others, and what is being answered is never cut for a newcomer.
 */
export function trackConnections(
  app: FastifyInstance,
  { limits, trustProxy }: { limits: ConnectionLimits; trustProxy: readonly string[] },
): Connections {
  const running = new WeakMap<Socket, Set<FastifyRequest>>()
  const unused = new Set<Socket>()
  const groups = new Map<string, Group>()
  const groupOfSocket = new WeakMap<Socket, Group>()
  const proxies = proxyList(trustProxy)
  let count = 0

  const groupOf = (socket: Socket): { group: Group; isProxy: boolean; key: string } => {
    const address = socket.remoteAddress ?? ''
    const isProxy = proxies.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
    // Apart from all addresses: a proxy's connections are those of everybody behind it.
    const key = isProxy ? 'proxies' : addressGroup(address)
    const group = groups.get(key) ?? { sockets: new Set(), idle: new Set() }
    groups.set(key, group)
    return { group, isProxy, key }
  }
  /** Cuts what has been idle for longest in the group, or else the newcomer. */
  const makeRoom = ({ idle }: Group, newcomer: Socket) => {
    for (const socket of idle) {
      if (socket === newcomer) continue
      idle.delete(socket)
      socket.destroy()
      return
    }
    newcomer.destroy()
  }
  const largest = (own: Group): Group => {
    let found = own
    for (const group of groups.values()) {
      if (group.idle.size > 0 && group.sockets.size > found.sockets.size) found = group
    }
    return found
  }

  // A last resort, for what comes faster than closing takes.
  app.server.maxConnections = Math.ceil(limits.total * 1.1)
  app.server.on('connection', (socket: Socket) => {
    const { group, isProxy, key } = groupOf(socket)
    unused.add(socket)
    groupOfSocket.set(socket, group)
    group.sockets.add(socket)
    group.idle.add(socket)
    count += 1
    socket.once('close', () => {
      unused.delete(socket)
      group.sockets.delete(socket)
      group.idle.delete(socket)
      if (group.sockets.size === 0 && groups.get(key) === group) groups.delete(key)
      count -= 1
    })
    if (!isProxy && group.sockets.size > limits.perAddress) makeRoom(group, socket)
    else if (count > limits.total) makeRoom(largest(group), socket)
  })

  app.addHook('onRequest', async (request, reply) => {
    const { socket } = request.raw
    unused.delete(socket)
    const requests = running.get(socket) ?? new Set()
    running.set(socket, requests.add(request))
    // A request that was injected has no socket that was ever opened.
    const group = groupOfSocket.get(socket)
    group?.idle.delete(socket)
    reply.raw.once('close', () => {
      requests.delete(request)
      if (requests.size === 0 && group?.sockets.has(socket)) group.idle.add(socket)
    })
  })

  return {
    requestsOn: (socket) => running.get(socket) ?? none,
    destroyUnused() {
      for (const socket of unused) socket.destroy()
    },
  }
}

/** The entries of TRUST_PROXY: addresses, CIDR ranges, and the word `loopback`. */
function proxyList(entries: readonly string[]): BlockList {
  const list = new BlockList()
  for (const entry of entries) {
    if (entry === 'loopback') {
      list.addSubnet('127.0.0.0', 8, 'ipv4')
      list.addAddress('::1', 'ipv6')
      continue
    }
    const [address = '', bits] = entry.split('/')
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    if (bits === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(bits), family)
  }
  return list
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Done also for a caller who has hung up: it undoes nothing that was asked later, and some never wait for its answer. */
    mayComeLate?: true
  }
}

/** Methods that change nothing by themselves. */
const safeMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/**
 * Whether the caller of a request that has been read has hung up, as far as this machine has been told: also what came while this
 * process stood still is heard first.
 */
export async function hasHungUp({ socket }: FastifyRequest): Promise<boolean> {
  // The first ends this turn of the event loop; in the next the end is read, if it was there.
  await turn()
  await turn()
  return socket.readableEnded || socket.destroyed
}

/**
 * Nothing is changed for a caller who has hung up before it was begun. What lay with a process that stood still is no longer asked
 * for when that wakes, and what its caller asked of another process meanwhile is done: the flow would be resumed behind its pause,
 * an order canceled that its cashier went on with. Money is moved after another look (`requireConnected`).
 */
export function refuseHungUp(app: FastifyInstance): void {
  app.addHook('preHandler', async (request) => {
    const { method, routeOptions } = request
    if (safeMethods.has(method) || routeOptions.config.mayComeLate) return
    if (!(await hasHungUp(request))) return
    request.log.warn({ req: request }, 'a request is not done: its caller has hung up')
    throw new AppError('CALLER_GONE')
  })
}

/** Forms in which proxies write an address: with a port, in brackets, in quotes (RFC 7239, 6). */
const spelt = /^"?(?:\[([^\]]+)\](?::\d{1,5})?|(\d{1,3}(?:\.\d{1,3}){3})(?::\d{1,5})?)"?$/

/**
 * The address of whoever sent a request: what a listed proxy says, without port, brackets and quotes. What is no address is somebody's
 * invention or the proxy's placeholder, so the connection's own address counts.
 */
export function callerAddress(request: {
  ip: string
  socket: { remoteAddress?: string | undefined }
}): string {
  const { ip, socket } = request
  if (ipaddr.isValid(ip)) return ip
  const [, v6, v4] = spelt.exec(ip) ?? []
  const address = v6 ?? v4
  if (address !== undefined && ipaddr.isValid(address)) return address
  return socket.remoteAddress ?? ip
}

/**
 * What counts as one caller where callers are counted by address: an IPv4 address however it is spelt, and the /64 of an
 * IPv6 address, all of which one subscriber has at his disposal.
 */
export function addressGroup(address: string): string {
  if (!ipaddr.isValid(address)) return address
  const parsed = ipaddr.process(address)
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString()
  const network = parsed.parts.slice(0, 4).map((part) => part.toString(16))
  return `${network.join(':')}::/64`
}
