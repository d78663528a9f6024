import ipaddr from 'ipaddr.js'

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
