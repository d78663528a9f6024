import { hostname } from 'node:os'
import type { FastifyRequest } from 'fastify'
import { AppError } from '../errors/app-error.ts'

export type KnownHosts = {
  /** `host`: as in a Host header, with or without a port. */
  isKnown(host: string): boolean
  /**
   * Refuses a request that a browser sent under another name.
   *
   * @throws UNKNOWN_HOST
   */
  require(request: FastifyRequest): void
}

/** Suffixes that the public DNS does not have, so that no outsider can point such a name at this service. */
const privateEnds = [
  ...['local', 'localhost', 'localdomain', 'lan', 'home', 'internal', 'intranet', 'corp'],
  ...['private', 'test', 'home.arpa'],
]

/**
 * The host names of this service. A page of a foreign name that leads here (DNS rebinding) must not begin a sign-in, since the browser
 * takes it for the service itself. Addresses, names without a dot and names of private networks are known, and so is the
 * machine's own name.
 *
 * @param options.addresses of the service; the first is named in the refusal
 * @param options.names further host names
 */
export function createKnownHosts({
  addresses,
  names,
}: {
  addresses: readonly [string, ...string[]]
  names: readonly string[]
}): KnownHosts {
  const own = new Set(
    [...addresses.map((url) => new URL(url).host), ...names, hostname()].map(nameOf),
  )
  const isKnown = (host: string): boolean => {
    const name = nameOf(host)
    if (name === undefined) return false
    if (own.has(name) || !name.includes('.') || isAddress(name)) return true
    return privateEnds.some((end) => name.endsWith(`.${end}`))
  }
  return {
    isKnown,
    require({ host }) {
      if (isKnown(host)) return
      throw new AppError('UNKNOWN_HOST', {
        message: `Signing in is not possible under this address: open ${addresses[0]}, or add the host name to SIGN_IN_HOSTS`,
      })
    },
  }
}

const hostShape = /^(\[[0-9a-f:.]+\]|[\w.-]+)(:\d{1,5})?$/i

/** The name in lower case, an IPv6 address in brackets; undefined for what is no host. */
function nameOf(host: string): string | undefined {
  const url = `http://${host}`
  if (!hostShape.test(host) || !URL.canParse(url)) return undefined
  return new URL(url).hostname.replace(/\.$/, '')
}

/** URL parsers write every form of an IPv4 address with four numbers. */
function isAddress(name: string): boolean {
  return name.startsWith('[') || /^\d+(\.\d+){3}$/.test(name)
}
