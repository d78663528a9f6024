import { Secret } from '../../domain/secret.ts'
import { type DeleteNeeds, madeFields, usedIn } from '../mapping/delete-needs.ts'
import type { Path, PathFinding } from './findings.ts'
import { grantFindings } from './rules-oauth.ts'
import type { Flow } from './schema.ts'

type Destination = Flow['destinations'][number]

/** What the control API calls a failed poll, in the place of a destination. */
const reservedName = 'source'

/** What in the destinations contradicts itself, another destination or the handling of deletes. */
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

/** A budget says who shares a limit; how many requests a receiver takes is not learnt from its answers. */
function budgetFindings(destination: Destination, under: Path): PathFinding[] {
  if (destination.type !== 'http' || destination.budget === undefined) return []
  if (destination.rateLimit) return []
  const hint = 'say how many requests the receiver takes: rateLimit: { max: 2, per: 1s }'
  return [{ path: [...under, 'budget'], message: 'needs a rateLimit beside it', hint }]
}

function nameFindings(
  { name }: Destination,
  earlier: readonly Destination[],
  under: Path,
): PathFinding[] {
  const path = [...under, 'name']
  const hint = 'choose another name'
  if (name === reservedName) {
    return [{ path, message: `is reserved: errors of polls are shown as ${name}`, hint }]
  }
  if (!earlier.some((other) => other.name === name)) return []
  return [{ path, message: 'is the name of a destination above', hint }]
}

function mappingFindings(destination: Destination, path: Path): PathFinding[] {
  const { map, fields } = destination
  if (map !== undefined && fields !== undefined) {
    return [
      {
        path: [...path, 'fields'],
        isKey: true,
        message: 'stands beside map; only one of them can make the body',
        hint: 'keep map or fields',
      },
    ]
  }
  if (fields === undefined) return []
  if (Object.keys(fields).length === 0) {
    const hint = 'name some, or leave fields out to send the item itself'
    return [{ path: [...path, 'fields'], message: 'names no field', hint }]
  }
  if (destination.type !== 'sql') return []
  return destination.upsertKey.flatMap((column, index) =>
    Object.hasOwn(fields, column)
      ? []
      : [
          {
            path: [...path, 'upsertKey', index],
            message: 'is not among the fields, so no row would have a key',
            hint: `add ${column} to fields`,
          },
        ],
  )
}

function retryFindings({ retry }: Destination, path: Path): PathFinding[] {
  if (retry.initialMs <= retry.maxMs) return []
  const hint = `make max at least ${retry.initialMs / 1_000}s`
  return [{ path: [...path, 'retry'], message: 'begins with a pause longer than its max', hint }]
}

const memorable = /\{\+?remembered\.([^{}]+)\}/g

/** What is used of answers has to be remembered of them, and what creates has to know what is there. */
function memoryFindings(destination: Destination, path: Path): PathFinding[] {
  if (destination.type !== 'http') return []
  const { remember, find = [] } = destination
  const fresh = find.flatMap((one) => (one.fresh ? Object.keys(one.remember ?? {}) : []))
  const known = [...Object.keys(remember ?? {}), ...fresh]
  const found: PathFinding[] = (['request', 'create'] as const).flatMap((name) => {
    const used = [...(destination[name]?.url.reveal() ?? '').matchAll(memorable)]
    const unknown = used.find(([, word = '']) => !known.includes(word))
    if (!unknown) return []
    const message = `${unknown[0]} is nothing that remember names`
    const hint = `add remember: { ${unknown[1]}: … }, what it is in the answer`
    return [{ path: [...path, name, 'url'], message, hint }]
  })
  if (destination.create && !remember) {
    const message = 'needs remember: else every change would create the item anew'
    found.push({ path: [...path, 'create'], message, hint: 'add remember: { id: id }' })
  }
  if (find.some((one) => !one.remember && (one.fresh || !remember))) {
    const message = 'needs remember: it names the values that are taken of the answer'
    found.push({ path: [...path, 'find'], message, hint: 'add remember: { id: id }' })
  }
  return found
}

function batchFindings(destination: Destination, path: Path): PathFinding[] {
  if (destination.type !== 'http' || !destination.batch || destination.batch.request) return []
  if (!/\{\+?(pk|body\.|remembered\.)/.test(destination.request.url.reveal())) return []
  const message = 'needs a request of its own: the address of the single one depends on the item'
  const hint = 'add request: { url: https://… }'
  return [{ path: [...path, 'batch'], message, hint }]
}

function deleteFindings({ deletes }: Flow, destination: Destination, path: Path): PathFinding[] {
  if (deletes.mode !== 'delete') return []
  if (destination.type === 'http' && !destination.delete) {
    return [
      {
        path,
        message: 'needs delete, because deletes.mode is delete',
        hint: 'add delete: { url: https://…/{pk} }, or write deletes: { mode: ignore }',
      },
    ]
  }
  if (destination.type === 'payments.stores' && !destination.allowStoreDelete) {
    return [
      {
        path,
        message: 'would refuse every delete: a store that is deleted at the provider is gone',
        hint: 'write allowStoreDelete: true if that is meant, or deletes: { mode: ignore }',
      },
    ]
  }
  return []
}

/** A delete has what was delivered and remembered; what else its request uses would be empty. */
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
  return parts.flatMap(({ path, request }) => {
    const at = [...under, 'delete', ...path]
    const unmade = made && unknownOf(usedIn(request, 'body'), made)
    if (unmade !== undefined) {
      const message = `uses body.${unmade}, which the mapping does not make, so it is not kept for the delete`
      return [{ path: at, message, hint: 'make it in fields or map, or use {pk}' }]
    }
    const unnamed = unknownOf(usedIn(request, 'remembered'), named)
    if (unnamed === undefined) return []
    const message = `uses remembered.${unnamed}, which remember does not name, so it is not kept for the delete`
    const hint = `add remember: { ${unnamed}: … }, what it is in the answer`
    return [{ path: at, message, hint }]
  })
}

function unknownOf(used: DeleteNeeds, known: ReadonlySet<string>): string | undefined {
  return used === 'all' ? undefined : [...used].find((name) => !known.has(name))
}

function fileFindings(
  { path: file }: Extract<Destination, { type: 'file' }>,
  earlier: readonly Destination[],
  under: Path,
): PathFinding[] {
  const path = [...under, 'path']
  if (file.split(/[\\/]/).includes('..')) {
    return [
      {
        path,
        message: 'must not climb by ..',
        hint: 'write the path from the root, or below the working directory',
      },
    ]
  }
  if (!earlier.some((other) => other.type === 'file' && other.path === file)) return []
  const message = 'is the file of a destination above; two cannot write one file'
  return [{ path, message, hint: 'give it a file of its own' }]
}
