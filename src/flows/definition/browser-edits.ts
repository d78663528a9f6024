import { isDeepStrictEqual } from 'node:util'
import { reference } from '../../domain/flow-secret.ts'
import { isRecord } from '../../domain/json.ts'
import type { Path, PathFinding } from './findings.ts'

/** Keys that say nothing of where a part leads, so that they can be changed beside an address. */
const freeKeys = {
  source: [
    'csv',
    'dbf',
    'fixed',
    'fullScanEvery',
    'groupBy',
    'items',
    'limits',
    'settle',
    'timeZone',
    'xlsx',
    'xml',
  ],
  destination: [
    'map',
    'fields',
    'filter',
    'answers',
    'breaker',
    'concurrency',
    'rateLimit',
    'retry',
    'timeout',
  ],
  alert: ['destinations'],
} as const

type Kind = keyof typeof freeKeys
type Part = { kind: Kind; path: Path; value: unknown }

/**
 * What a definition may not say when it is saved or tried in the browser. The administrator decides what flows reach: a new
 * part uses a connection and holds no reference. A part of `base`, the file on the disk, that has an address, a path or a
 * reference of its own stays as it is, but for its free keys.
 */
export function browserFindings(
  definition: unknown,
  base: unknown,
  connectionNames: readonly string[],
): PathFinding[] {
  if (!isRecord(definition)) return []
  const former = partsOf(base)
  const taken = new Set<Part>()
  const known = connectionNames.length > 0 ? connectionNames.join(', ') : undefined
  const findings: PathFinding[] = []
  for (const part of partsOf(definition)) {
    if (isConnected(part.value)) {
      findings.push(...referencesIn(part.value, part.path))
      continue
    }
    const before = former.find((one) => !taken.has(one) && isSamePlace(one, part))
    if (before) {
      taken.add(before)
      continue
    }
    const ofSamePart = former.find((one) => one.kind === part.kind && isSamePart(one, part))
    findings.push(
      ofSamePart && !isConnected(ofSamePart.value)
        ? {
            path: part.path,
            why: { code: 'ONLY_ON_DISK', data: { free: freeKeys[part.kind].join(', ') } },
          }
        : { path: part.path, why: { code: 'NEEDS_CONNECTION', data: { known } } },
    )
  }
  const rest = restOf(definition)
  if (!isDeepStrictEqual(rest, restOf(base))) findings.push(...referencesIn(rest, []))
  const formerly = isRecord(base) && base.allowPrivateNetwork === true
  if (definition.allowPrivateNetwork === true && !formerly) {
    findings.push({
      path: ['allowPrivateNetwork'],
      isKey: true,
      why: { code: 'NEEDS_CONNECTION', data: { known } },
    })
  }
  return findings
}

/** Whether a definition has a part that can only be changed on the disk. */
export function hasOwnPlaces(definition: unknown): boolean {
  return browserFindings(definition, undefined, []).length > 0
}

function partsOf(definition: unknown): Part[] {
  if (!isRecord(definition)) return []
  const { source, destinations, alerts } = definition
  const channels = isRecord(alerts) ? alerts.onJobFailed : undefined
  const listed = (kind: Kind, list: unknown, path: Path): Part[] =>
    Array.isArray(list)
      ? list.map((value: unknown, index) => ({ kind, value, path: [...path, index] }))
      : []
  return [
    ...(source === undefined ? [] : [{ kind: 'source' as const, path: ['source'], value: source }]),
    ...listed('destination', destinations, ['destinations']),
    ...listed('alert', channels, ['alerts', 'onJobFailed']),
  ]
}

/** All that is in no part. */
function restOf(definition: unknown): unknown {
  if (!isRecord(definition)) return {}
  const { source, destinations, alerts, ...rest } = definition
  const { onJobFailed, ...group } = isRecord(alerts) ? alerts : {}
  return { ...rest, alerts: group }
}

/** A part that leads only where a connection or the payment side does. */
function isConnected(value: unknown): boolean {
  if (!isRecord(value)) return false
  return typeof value.connection === 'string' || /^payments\./.test(String(value.type))
}

/** The same part of a flow; what it says may differ. */
function isSamePart(one: Part, other: Part): boolean {
  if (one.kind !== other.kind) return false
  if (one.kind !== 'destination') return true
  return isRecord(one.value) && isRecord(other.value) && one.value.name === other.value.name
}

/** The same part with the same address, credentials and requests. */
function isSamePlace(one: Part, other: Part): boolean {
  return isSamePart(one, other) && isDeepStrictEqual(withoutFree(one), withoutFree(other))
}

function withoutFree({ kind, value }: Part): unknown {
  if (!isRecord(value)) return value
  const free: readonly string[] = freeKeys[kind]
  return Object.fromEntries(Object.entries(value).filter(([key]) => !free.includes(key)))
}

function referencesIn(value: unknown, path: Path): PathFinding[] {
  if (typeof value === 'string') {
    return value.search(reference) >= 0 ? [{ path, why: { code: 'REFERENCE_IN_BROWSER' } }] : []
  }
  if (Array.isArray(value)) {
    return value.flatMap((one: unknown, index) => referencesIn(one, [...path, index]))
  }
  if (!isRecord(value)) return []
  return Object.entries(value).flatMap(([key, one]) => [
    ...referencesIn(one, [...path, key]),
    ...(key.search(reference) >= 0
      ? [{ path: [...path, key], why: { code: 'REFERENCE_IN_BROWSER' } } as const]
      : []),
  ])
}
