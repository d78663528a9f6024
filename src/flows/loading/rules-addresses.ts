import type { Secret } from '../../domain/flow-secret.ts'
import { addressPolicyOf, classOfLiteral, isMetadataName } from '../../outbound/address-class.ts'
import { policyOfHost } from '../../outbound/guarded-agent.ts'
import type { Path, PathFinding } from '../definition/findings.ts'
import { portsOfSchemes } from '../definition/reach.ts'
import type { Flow } from '../definition/schema.ts'

type Address = { path: Path; url: Secret }

/**
 * Finds addresses that every request would be refused for: hosts that depend on the item, metadata services, and literal
 * private addresses without `allowPrivateNetwork`. Host names are checked when they are resolved.
 */
export function addressFindings(flow: Flow): PathFinding[] {
  return addressesOf(flow).flatMap(({ path, url }): PathFinding[] => {
    const [host, otherHost] = ['a', 'b'].map((value) => hostOf(url, value))
    if (host === undefined || host !== otherHost) {
      return [{ path, why: { code: 'HOST_OF_ITEM' } }]
    }
    const segments = url.reveal().split(/[?#]/, 1)[0]?.split('/') ?? []
    if (segments.some((segment) => /^(\.|%2e){1,2}$/i.test(segment))) {
      return [{ path, why: { code: 'DOTS_IN_PATH' } }]
    }
    if (path[0] === 'destinations' && segments.slice(3, -1).includes('')) {
      return [{ path, why: { code: 'EMPTY_SEGMENT' } }]
    }
    const name = host.replace(/:\d+$/, '')
    if (isMetadataName(name) || classOfLiteral(name) === 'never') {
      return [{ path, why: { code: 'METADATA_HOST' } }]
    }
    if (!isPrivate(name)) return []
    const { protocol = '', port = '' } = URL.parse(url.reveal().replace(/\{[^{}]*\}/g, 'a')) ?? {}
    const dialled = { host: name, port: port || (portsOfSchemes[protocol] ?? '') }
    if (policyOfHost(dialled, addressPolicyOf(flow)).allowPrivateNetwork) return []
    return [{ path, why: { code: 'PRIVATE_HOST' } }]
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
