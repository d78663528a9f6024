import type { Secret } from '../../domain/secret.ts'
import { classOfLiteral, isMetadataName } from '../../outbound/address-class.ts'
import type { Path, PathFinding } from './findings.ts'
import type { Flow } from './schema.ts'

type Address = { path: Path; url: Secret }

/**
 * Addresses that every request would be refused for: hosts that depend on the item, metadata services, and literal
 * private addresses that the flow does not open. Names are judged when they are resolved.
 */
export function addressFindings(flow: Flow): PathFinding[] {
  return addressesOf(flow).flatMap(({ path, url }) => {
    const [host, otherHost] = ['a', 'b'].map((value) => hostOf(url, value))
    if (host === undefined || host !== otherHost) {
      const hint = 'placeholders belong to the path or the query'
      return [{ path, message: 'has a host that depends on the item', hint }]
    }
    const segments = url.reveal().split(/[?#]/, 1)[0]?.split('/') ?? []
    if (segments.some((segment) => /^(\.|%2e){1,2}$/i.test(segment))) {
      return [{ path, message: 'has . or .. in its path', hint: 'write the path that is meant' }]
    }
    if (path[0] === 'destinations' && segments.slice(3, -1).includes('')) {
      const hint = 'write one slash; a variable must not end in one'
      return [{ path, message: 'has an empty segment (//) in its path', hint }]
    }
    const name = host.replace(/:\d+$/, '')
    if (isMetadataName(name) || classOfLiteral(name) === 'never') {
      return [{ path, message: 'is link-local or a metadata service, which is never called' }]
    }
    if (flow.allowPrivateNetwork || !isPrivate(name)) return []
    const hint = 'write allowPrivateNetwork: true at the top of the file'
    return [{ path, message: 'is on a private network, which this flow may not call', hint }]
  })
}

function addressesOf({ source, destinations, alerts }: Flow): Address[] {
  const found: { path: Path; url: Secret | undefined }[] = []
  if (source.type === 'sftp') found.push({ path: ['source', 'url'], url: source.url })
  if (source.type === 'http') {
    found.push({ path: ['source', 'url'], url: source.url })
    found.push({ path: ['source', 'item', 'url'], url: source.item?.url })
    found.push({ path: ['source', 'auth', 'tokenUrl'], url: source.auth?.tokenUrl })
  }
  for (const [index, destination] of destinations.entries()) {
    if (destination.type !== 'http') continue
    const under = ['destinations', index]
    for (const one of destination.find ?? []) {
      found.push({ path: [...under, 'find', 'url'], url: one.url })
    }
    for (const name of ['request', 'create', 'delete'] as const) {
      found.push({ path: [...under, name, 'url'], url: destination[name]?.url })
    }
    found.push({ path: [...under, 'auth', 'tokenUrl'], url: destination.auth?.tokenUrl })
    found.push({
      path: [...under, 'batch', 'request', 'url'],
      url: destination.batch?.request?.url,
    })
  }
  for (const [index, channel] of alerts.onJobFailed.entries()) {
    if (channel.type === 'email') continue
    found.push({ path: ['alerts', 'onJobFailed', index, 'url'], url: channel.url })
  }
  return found.flatMap(({ path, url }) => (url ? [{ path, url }] : []))
}

function hostOf(url: Secret, placeholder: string): string | undefined {
  return URL.parse(url.reveal().replace(/\{[^{}]*\}/g, placeholder))?.host
}

function isPrivate(name: string): boolean {
  return classOfLiteral(name) === 'private' || /(^|\.)localhost\.?$/.test(name)
}
