import ipaddr from 'ipaddr.js'

export type AddressPolicy = {
  /** Allows loopback, private and reserved ranges; link-local and cloud metadata stay refused. */
  allowPrivateNetwork: boolean
  /** `host:port`, in lower case, that may be in those ranges although others may not. */
  privateHosts?: readonly string[] | undefined
}

/** The addresses that a flow may call: those of its definition, and what its connections allow. */
export function addressPolicyOf(flow: {
  allowPrivateNetwork: boolean
  reach: { privateHosts: readonly string[] }
}): AddressPolicy {
  const { allowPrivateNetwork, reach } = flow
  return { allowPrivateNetwork, privateHosts: reach.privateHosts }
}

/** `never`: no setting allows it. `private`: `allowPrivateNetwork` allows it. */
export type AddressClass = 'public' | 'private' | 'never'

/**
 * Credential services of clouds, beyond link-local: Alibaba (100.100.100.200), Oracle's older one (192.0.0.192),
 * Azure's host agent (168.63.129.16), and the IPv6 ones of AWS, Google, Oracle and Scaleway.
 */
const metadataRanges: readonly [string, number][] = [
  ['100.100.100.200', 32],
  ['192.0.0.192', 32],
  ['168.63.129.16', 32],
  ['fd00:ec2::', 32],
  ['fd20:ce::254', 128],
  ['fd00:c1::a9fe:a9fe', 128],
  ['fd00:42::42', 128],
]

const metadataNames = new Set(['metadata.google.internal', 'metadata', 'instance-data'])

const metadata = metadataRanges.map(([start, bits]) => ({ start: ipaddr.parse(start), bits }))

/** The class of a literal address (IPv6 with or without brackets); null when `host` is a name. */
export function classOfLiteral(host: string): AddressClass | null {
  const bare = bareHost(host)
  return ipaddr.isValid(bare) ? classOf(ipaddr.parse(bare)) : null
}

/** Whether the name is that of a metadata service, whatever it resolves to. */
export function isMetadataName(host: string): boolean {
  return metadataNames.has(bareHost(host))
}

/** Lower case, without the brackets of IPv6 and without the dot of a fully qualified name. */
function bareHost(host: string): string {
  return host
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.+$/, '')
    .toLowerCase()
}

function classOf(address: ipaddr.IPv4 | ipaddr.IPv6): AddressClass {
  if (isMetadata(address)) return 'never'
  const range = address.range()
  if (range === 'linkLocal') return 'never'
  if (address instanceof ipaddr.IPv4) return range === 'unicast' ? 'public' : 'private'

  const inner = innerAddress(address)
  if (!inner) return range === 'unicast' ? 'public' : 'private'
  const innerClass = classOf(inner.address)
  // The other transition mechanisms are obsolete: no ERP or shop is reached through them.
  return innerClass === 'public' && !inner.isReachable ? 'private' : innerClass
}

function isMetadata(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  return metadata.some(
    ({ start, bits }) => start.kind() === address.kind() && address.match(start, bits),
  )
}

type Inner = { address: ipaddr.IPv4; isReachable: boolean }

/** The IPv4 address that a packet to this IPv6 address may reach. */
function innerAddress(address: ipaddr.IPv6): Inner | null {
  const bytes = address.toByteArray()
  const at = (offset: number) => new ipaddr.IPv4(bytes.slice(offset, offset + 4))
  const within = (network: string, bits: number) => address.match(ipaddr.IPv6.parse(network), bits)

  // Mapped (RFC 4291, 2.5.5.2) is plain IPv4 to the kernel; 64:ff9b::/96 is NAT64 (RFC 6052).
  if (within('::ffff:0:0', 96) || within('64:ff9b::', 96)) {
    return { address: at(12), isReachable: true }
  }
  // Local NAT64 (RFC 8215), translated (RFC 2765), compatible (RFC 4291, 2.5.5.1).
  if (within('64:ff9b:1::', 48) || within('::ffff:0:0:0', 96) || within('::', 96)) {
    return { address: at(12), isReachable: false }
  }
  // 6to4 (RFC 3056).
  if (within('2002::', 16)) return { address: at(2), isReachable: false }
  // Teredo (RFC 4380, 4) inverts the bits.
  if (within('2001::', 32)) {
    const octets = bytes.slice(12).map((byte) => byte ^ 0xff)
    return { address: new ipaddr.IPv4(octets), isReachable: false }
  }
  return null
}
