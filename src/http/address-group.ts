import ipaddr from 'ipaddr.js'

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
