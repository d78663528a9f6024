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

/**
 * The host names of this service. A page of a foreign name that leads here (DNS rebinding) must not begin a sign-in, since the browser
 * takes it for the service itself. IP addresses and localhost are known; any other name only by a setting.
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
    [...addresses.map((url) => new URL(url).host), ...names, 'localhost'].map(nameOf),
  )
  const isKnown = (host: string): boolean => {
    const name = nameOf(host)
    return name !== undefined && (own.has(name) || isAddress(name))
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
