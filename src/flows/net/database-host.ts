import { lookup as resolveName } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { parse } from 'pg-connection-string'
import { classOfLiteral, isMetadataName } from '../../outbound/address-class.ts'
import { RefusedAddressError } from '../../outbound/guarded-agent.ts'

/**
 * Refuses a database at a link-local address or a metadata service, by its literal address or by what its name means now.
 * Private networks are allowed. A name that cannot be resolved is left to the driver.
 * @throws RefusedAddressError.
 */
export async function refuseMetadataHost(
  driver: string,
  url: string,
  lookup: LookupFunction = resolveName,
): Promise<void> {
  for (const host of hostsOf(driver, url)) {
    const isLiteral = classOfLiteral(host) !== null
    const addresses = isLiteral ? [host] : await addressesOf(host, lookup)
    if (isMetadataName(host) || addresses.some((one) => classOfLiteral(one) === 'never')) {
      throw new RefusedAddressError({ code: 'METADATA_ADDRESS', data: { host } })
    }
  }
}

/** The hosts that an address, or a parameter in it, names. A path is a socket of this machine. */
function hostsOf(driver: string, url: string): string[] {
  const parsed = URL.parse(url)
  if (!parsed?.host && driver !== 'postgres') {
    const server = /(?:^|;)\s*(?:server|data source|addr|address|network address)\s*=\s*([^;]*)/i
    const [, named = ''] = server.exec(url) ?? []
    return withoutPaths([named.replace(/^(?:tcp|np|lpc|admin):/i, '').replace(/[,\\].*$/, '')])
  }
  const named = parsed?.searchParams.getAll('host') ?? []
  const host = driver === 'postgres' ? parse(withoutFiles(url)).host : parsed?.hostname
  return withoutPaths([...named, host ?? ''])
}

/** The parser reads files of certificates, which say nothing of the host. */
function withoutFiles(url: string): string {
  return url.replace(/([?&])ssl(?:cert|key|rootcert)=[^&]*/gi, '$1')
}

function withoutPaths(hosts: readonly string[]): string[] {
  return hosts
    .map((host) => host.trim().replace(/^\[(.*)\]$/, '$1'))
    .filter((host) => host !== '' && !host.startsWith('/'))
}

function addressesOf(host: string, lookup: LookupFunction): Promise<string[]> {
  return new Promise((resolve) => {
    lookup(host, { all: true }, (error, found) => {
      if (error) resolve([])
      else resolve(Array.isArray(found) ? found.map(({ address }) => address) : [found])
    })
  })
}
