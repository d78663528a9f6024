import { Secret } from '../../domain/flow-secret.ts'
import type { Path, PathFinding } from '../definition/findings.ts'
import { grantFindings } from '../definition/oauth-schema.ts'
import type { Flow } from '../definition/schema.ts'
import { madeFields, type UsedNames, usedIn } from '../mapping/named-values.ts'

type Destination = Flow['destinations'][number]

/** The control API uses this name for a failed poll, in place of a destination. */
const reservedName = 'source'

/** Contradictions in a destination, between destinations, and with the handling of deletes. */
export function destinationFindings(flow: Flow): PathFinding[] {
  const { destinations } = flow
  return destinations.flatMap((destination, index) => {
    const path: Path = ['destinations', index]
    const earlier = destinations.slice(0, index)
    return [
      ...nameFindings(destination, earlier, path),
      ...budgetFindings(destination, path),
      ...mappingFindings(destination, path),
      ...retryFindings(destination, path),
      ...deleteFindings(flow, destination, path),
      ...deleteRequestFindings(destination, path),
      ...batchFindings(destination, path),
      ...(destination.type === 'http' ? grantFindings(destination.auth, path) : []),
      ...memoryFindings(destination, path),
      ...(destination.type === 'file' ? fileFindings(destination, earlier, path) : []),
    ]
  })
}

/** A budget only says who shares a rate limit, so it needs one. */
function budgetFindings(destination: Destination, under: Path): PathFinding[] {
  if (destination.type !== 'http' || destination.budget === undefined) return []
  if (destination.rateLimit) return []
  return [{ path: [...under, 'budget'], why: { code: 'BUDGET_NEEDS_LIMIT' } }]
}

function nameFindings(
  { name }: Destination,
  earlier: readonly Destination[],
  under: Path,
): PathFinding[] {
  const path = [...under, 'name']
  if (name === reservedName) return [{ path, why: { code: 'NAME_RESERVED', data: { name } } }]
  if (!earlier.some((other) => other.name === name)) return []
  return [{ path, why: { code: 'NAME_TAKEN' } }]
}

function mappingFindings(destination: Destination, path: Path): PathFinding[] {
  const { map, fields } = destination
  if (map !== undefined && fields !== undefined) {
    return [{ path: [...path, 'fields'], isKey: true, why: { code: 'MAP_AND_FIELDS' } }]
  }
  if (fields === undefined) return []
  if (Object.keys(fields).length === 0) {
    return [{ path: [...path, 'fields'], why: { code: 'NAMES_NO_FIELD' } }]
  }
  if (destination.type !== 'sql') return []
  return destination.upsertKey.flatMap((column, index) =>
    Object.hasOwn(fields, column)
      ? []
      : [
          {
            path: [...path, 'upsertKey', index],
            why: { code: 'KEY_NOT_IN_FIELDS', data: { column } } as const,
          },
        ],
  )
}

function retryFindings({ retry }: Destination, path: Path): PathFinding[] {
  if (retry.initialMs <= retry.maxMs) return []
  const data = { seconds: retry.initialMs / 1_000 }
  return [{ path: [...path, 'retry'], why: { code: 'PAUSE_BEYOND_MAX', data } }]
}

const memorable = /\{\+?remembered\.([^{}]+)\}/g

/** `{remembered.name}` needs a value that responses provide, and `create` needs to know which items exist. */
function memoryFindings(destination: Destination, path: Path): PathFinding[] {
  if (destination.type !== 'http') return []
  const { remember, find = [] } = destination
  const fresh = find.flatMap((one) => (one.fresh ? Object.keys(one.remember ?? {}) : []))
  const known = [...Object.keys(remember ?? {}), ...fresh]
  const found: PathFinding[] = (['request', 'create'] as const).flatMap((name) => {
    const used = [...(destination[name]?.url.reveal() ?? '').matchAll(memorable)]
    const unknown = used.find(([, word = '']) => !known.includes(word))
    if (!unknown) return []
    const data = { placeholder: unknown[0], name: unknown[1] ?? '' }
    return [{ path: [...path, name, 'url'], why: { code: 'REMEMBERED_UNKNOWN', data } }]
  })
  if (destination.create && !remember) {
    found.push({ path: [...path, 'create'], why: { code: 'CREATE_NEEDS_REMEMBER' } })
  }
  if (find.some((one) => !one.remember && (one.fresh || !remember))) {
    found.push({ path: [...path, 'find'], why: { code: 'FIND_NEEDS_REMEMBER' } })
  }
  return found
}

function batchFindings(destination: Destination, path: Path): PathFinding[] {
  if (destination.type !== 'http' || !destination.batch || destination.batch.request) return []
  if (!/\{\+?(pk|body\.|remembered\.)/.test(destination.request.url.reveal())) return []
  return [{ path: [...path, 'batch'], why: { code: 'BATCH_NEEDS_REQUEST' } }]
}

function deleteFindings({ deletes }: Flow, destination: Destination, path: Path): PathFinding[] {
  if (deletes.mode !== 'delete') return []
  if (destination.type === 'http' && !destination.delete) {
    const data = { example: 'delete: { url: https://…/{pk} }' }
    return [{ path, why: { code: 'NEEDS_DELETE', data } }]
  }
  if (destination.type === 'payments.stores' && !destination.allowStoreDelete) {
    return [{ path, why: { code: 'REFUSES_STORE_DELETES' } }]
  }
  return []
}

/** A delete request only has delivered and remembered values; any other placeholder would be empty. */
function deleteRequestFindings(destination: Destination, under: Path): PathFinding[] {
  if (destination.type !== 'http' || !destination.delete) return []
  const { url, headers, body } = destination.delete
  const nothing = { url: new Secret('', ''), headers: {}, body: undefined }
  const parts: { path: Path; request: Parameters<typeof usedIn>[0] }[] = [
    { path: ['url'], request: { ...nothing, url } },
    ...Object.entries(headers).map(([name, value]) => ({
      path: ['headers', name],
      request: { ...nothing, headers: { [name]: value } },
    })),
    { path: ['body'], request: { ...nothing, body } },
  ]
  const made = madeFields(destination)
  const { remember, find = [] } = destination
  const [search] = find.filter(({ fresh }) => !fresh)
  const fresh = find.filter((one) => one.fresh).flatMap((one) => Object.keys(one.remember ?? {}))
  const named = new Set([...Object.keys(remember ?? search?.remember ?? {}), ...fresh])
  return parts.flatMap(({ path, request }): PathFinding[] => {
    const at = [...under, 'delete', ...path]
    const unmade = made && unknownOf(usedIn(request, 'body'), made)
    if (unmade !== undefined) {
      const data = { name: unmade, placeholder: '{pk}' }
      return [{ path: at, why: { code: 'DELETE_USES_UNMADE', data } }]
    }
    const unnamed = unknownOf(usedIn(request, 'remembered'), named)
    if (unnamed === undefined) return []
    return [{ path: at, why: { code: 'DELETE_USES_UNNAMED', data: { name: unnamed } } }]
  })
}

function unknownOf(used: UsedNames, known: ReadonlySet<string>): string | undefined {
  return used === 'all' ? undefined : [...used].find((name) => !known.has(name))
}

function fileFindings(
  { path: file }: Extract<Destination, { type: 'file' }>,
  earlier: readonly Destination[],
  under: Path,
): PathFinding[] {
  const path = [...under, 'path']
  if (file.split(/[\\/]/).includes('..')) {
    return [{ path, why: { code: 'PATH_CLIMBS' } }]
  }
  if (/[{}]/.test(file.replaceAll('{date}', ''))) {
    const why = { code: 'UNKNOWN_PLACEHOLDER', data: { placeholder: file } } as const
    return [{ path, why, hint: { code: 'THERE_ARE', data: { known: '{date}' } } }]
  }
  if (!earlier.some((other) => other.type === 'file' && other.path === file)) return []
  return [{ path, why: { code: 'FILE_TAKEN' } }]
}
