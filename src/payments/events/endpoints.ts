import { randomUUID } from 'node:crypto'
import type { Trx } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'
import type { EventType } from '../../domain/event-types.ts'
import { AppError, invalid } from '../../errors/app-error.ts'
import { type AddressPolicy, classOfLiteral, isMetadataName } from '../../outbound/address-class.ts'
import { parseHttpUrl } from '../../outbound/guarded-request.ts'
import { insertAttempts } from '../../repositories/events/event-attempts.ts'
import { deleteUnwanted, hurryDeliveries } from '../../repositories/events/event-deliveries.ts'
import {
  deleteEndpoint,
  type EndpointKey,
  type EndpointRow,
  type EndpointWithWaiting,
  filterOf,
  findEndpoint,
  insertEndpoint,
  listEndpoints,
  lockEndpoint,
  lockEndpointsOf,
  updateEndpoint,
} from '../../repositories/events/event-endpoints.ts'
import { readEnds } from '../../repositories/events/event-log.ts'
import { auditFailure, recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import type { SentMessage } from '../process/endpoint-client.ts'
import { newSecret, signingKeys } from './endpoint-secrets.ts'
import { numberCommitted, type Place, positionOfPlace } from './feed.ts'
import { attemptOf, isTaken, stopEndpoint } from './record-attempts.ts'

/** Each has a process send to it; an ERP needs one or two. */
const endpointsAtMost = 16
/** More events than that are shown as that many. */
export const waitingCountedAtMost = 10_000

/** Which events an endpoint gets, and where. */
type EndpointContent = {
  url: string
  types: EventType[] | null
  sucursalId: string | null
  cajaId: string | null
}

/** What is undefined stays as it is. */
type ChangedContent = {
  [Key in keyof EndpointContent]: EndpointContent[Key] | undefined
}

/** Makes an endpoint. Its secret is in the result, and nowhere else. */
export async function createEndpoint(
  deps: PaymentDeps,
  client: ClientName,
  content: EndpointContent & { from: Place },
  actor: Actor,
): Promise<{ endpoint: EndpointWithWaiting; secret: string }> {
  const key = { client, id: `ep_${randomUUID().replaceAll('-', '')}` }
  const url = endpointAddress(content.url, deps.endpointClient.addresses)
  const position = await positionOfPlace(deps, client, content.from)
  const secret = newSecret(deps.encryption, key.id)
  await deps.database.transaction(async (trx) => {
    if ((await lockEndpointsOf(trx, client)) >= endpointsAtMost) {
      throw new AppError('CONFLICT', {
        message: `The client has ${endpointsAtMost} endpoints; delete one first`,
      })
    }
    await insertEndpoint(trx, {
      ...key,
      url,
      types: content.types,
      sucursal_id: content.sucursalId,
      caja_id: content.cajaId,
      secret: secret.stored,
      position,
      created_at: deps.now(),
    })
    await record(deps, trx, key, actor, 'created')
  })
  return { endpoint: await readEndpoint(deps, key), secret: secret.clear }
}

/** The endpoints of a client, with what waits for each. */
export async function readEndpoints(
  deps: Pick<PaymentDeps, 'database'>,
  client: ClientName,
): Promise<EndpointWithWaiting[]> {
  await numberCommitted(deps.database)
  return listEndpoints(deps.database.db, { client }, waitingCountedAtMost)
}

/** @throws NOT_FOUND */
export async function readEndpoint(
  deps: Pick<PaymentDeps, 'database'>,
  key: EndpointKey,
): Promise<EndpointWithWaiting> {
  await numberCommitted(deps.database)
  const [endpoint] = await listEndpoints(deps.database.db, key, waitingCountedAtMost)
  if (!endpoint) throw noEndpoint()
  return endpoint
}

/** Changes the address or the filter. What failed is sent to a new address at once; what a new filter leaves out is not sent. */
export async function changeEndpoint(
  deps: PaymentDeps,
  key: EndpointKey,
  change: ChangedContent,
  actor: Actor,
): Promise<EndpointWithWaiting> {
  const { url: given, types, sucursalId, cajaId } = change
  const url =
    given === undefined ? undefined : endpointAddress(given, deps.endpointClient.addresses)
  return changing(deps, key, actor, 'changed', async (trx, endpoint) => {
    const changed = await updateEndpoint(trx, key, {
      url: url ?? endpoint.url,
      types: types === undefined ? endpoint.types : types,
      sucursal_id: sucursalId === undefined ? endpoint.sucursal_id : sucursalId,
      caja_id: cajaId === undefined ? endpoint.caja_id : cajaId,
      ...(url !== undefined && { failures: 0, resting_until: null }),
    })
    if (url !== undefined) await hurryDeliveries(trx, key.id, deps.now(), 'from_start')
    await deleteUnwanted(trx, key.id, filterOf(changed))
  })
}

/** @throws NOT_FOUND */
export async function removeEndpoint(
  deps: PaymentDeps,
  key: EndpointKey,
  actor: Actor,
): Promise<void> {
  await auditFailure(deps, entryOf(key, actor, 'deleted'), () =>
    deps.database.transaction(async (trx) => {
      if (!(await deleteEndpoint(trx, key))) throw noEndpoint()
      await record(deps, trx, key, actor, 'deleted')
    }),
  )
}

/** Gives an endpoint a new secret. The former one signs too for so long; one from before it no longer does. */
export async function rotateSecret(
  deps: PaymentDeps,
  key: EndpointKey,
  overlapMs: number,
  actor: Actor,
): Promise<{ endpoint: EndpointWithWaiting; secret: string }> {
  const secret = newSecret(deps.encryption, key.id)
  const endpoint = await changing(deps, key, actor, 'rotated', async (trx, before) => {
    const former = overlapMs > 0 ? before.secret : null
    const until = new Date(deps.now().getTime() + overlapMs)
    await updateEndpoint(trx, key, {
      secret: secret.stored,
      former_secret: former,
      former_until: former === null ? null : until,
    })
  })
  return { endpoint, secret: secret.clear }
}

/** Stops an endpoint until a person resumes it. */
export async function stopByPerson(
  deps: PaymentDeps,
  key: EndpointKey,
  actor: Actor,
): Promise<EndpointWithWaiting> {
  return changing(deps, key, actor, 'stopped', (trx, endpoint) =>
    stopEndpoint(trx, endpoint, 'person', deps.now()),
  )
}

/**
 * Sends again, from the first event that the endpoint does not have. What failed begins its schedule again.
 *
 * @throws NOT_FOUND, and CONFLICT without a secret
 */
export async function resumeEndpoint(
  deps: PaymentDeps,
  key: EndpointKey,
  actor: Actor,
): Promise<EndpointWithWaiting> {
  return changing(deps, key, actor, 'resumed', async (trx, { secret }) => {
    if (secret === null) {
      throw new AppError('CONFLICT', {
        message: 'The secret of the endpoint was lost with an encryption key; rotate it first',
      })
    }
    await updateEndpoint(trx, key, {
      stopped_at: null,
      stop_reason: null,
      notified_at: null,
      failures: 0,
      resting_until: null,
    })
    await hurryDeliveries(trx, key.id, deps.now(), 'from_start')
  })
}

/** Leaves out what waits: the next event is the first one that is sent. The endpoint stays stopped or active. */
export async function skipWaiting(
  deps: PaymentDeps,
  key: EndpointKey,
  actor: Actor,
): Promise<EndpointWithWaiting> {
  await numberCommitted(deps.database)
  return changing(deps, key, actor, 'skipped', async (trx) => {
    const { head } = await readEnds(trx, key.client)
    await deleteUnwanted(trx, key.id, 'all')
    await updateEndpoint(trx, key, { position: head })
  })
}

/** Sends a message without an event now, also to a stopped endpoint. It changes nothing but the list of attempts. */
export async function pingEndpoint(
  deps: PaymentDeps,
  key: EndpointKey,
  actor: Actor,
): Promise<SentMessage & { isTaken: boolean }> {
  return auditFailure(deps, entryOf(key, actor, 'pinged'), async () => {
    const { database, encryption, endpointClient, now } = deps
    const endpoint = await requireEndpoint(deps, key)
    const keys = signingKeys(encryption, endpoint, now())
    const id = `msg_${randomUUID().replaceAll('-', '')}`
    const data = { endpoint_id: key.id, client: key.client }
    const body = { id, type: 'ping', timestamp: now().toISOString(), data }
    const sent = await endpointClient.send({ url: endpoint.url, keys }, { id, body })
    // Without a signal nothing else ends it.
    if (!sent) throw new AppError('SERVICE_UNAVAILABLE')
    await database.transaction(async (trx) => {
      if (!(await lockEndpoint(trx, key))) throw noEndpoint()
      await insertAttempts(trx, [attemptOf(key.id, undefined, sent)])
      await record(deps, trx, key, actor, 'pinged')
    })
    return { ...sent, isTaken: isTaken(sent) }
  })
}

/** @throws NOT_FOUND */
export async function requireEndpoint(
  deps: Pick<PaymentDeps, 'database'>,
  key: EndpointKey,
): Promise<EndpointRow> {
  const endpoint = await findEndpoint(deps.database.db, key)
  if (!endpoint) throw noEndpoint()
  return endpoint
}

/** Changes an endpoint under its lock, with an entry in the audit log. */
export async function changing(
  deps: PaymentDeps,
  key: EndpointKey,
  actor: Actor,
  what: string,
  work: (trx: Trx, endpoint: EndpointRow) => Promise<void>,
): Promise<EndpointWithWaiting> {
  await auditFailure(deps, entryOf(key, actor, what), () =>
    deps.database.transaction(async (trx) => {
      const endpoint = await lockEndpoint(trx, key)
      if (!endpoint) throw noEndpoint()
      await work(trx, endpoint)
      await record(deps, trx, key, actor, what)
    }),
  )
  return readEndpoint(deps, key)
}

function noEndpoint(): AppError {
  return new AppError('NOT_FOUND', { message: 'There is no such endpoint' })
}

function entryOf({ client, id }: EndpointKey, actor: Actor, what: string) {
  return { client, actor, action: `endpoint.${what}`, resourceId: id }
}

function record(deps: PaymentDeps, trx: Trx, key: EndpointKey, actor: Actor, what: string) {
  return recordSuccess(deps, trx, entryOf(key, actor, what))
}

/**
 * The address of an endpoint, in its normal form. A name is checked again when it is resolved, before each request.
 *
 * @throws VALIDATION_ERROR for one to which every request would be refused
 */
function endpointAddress(given: string, policy: AddressPolicy): string {
  const url = parseAddress(given)
  const { hostname } = url
  if (isMetadataName(hostname) || classOfLiteral(hostname) === 'never') {
    throw invalid('url', { code: 'ENDPOINT_METADATA' })
  }
  const isPrivate =
    url.protocol === 'http:' ||
    classOfLiteral(hostname) === 'private' ||
    /(^|\.)localhost\.?$/.test(hostname)
  if (isPrivate && !policy.allowPrivateNetwork) throw invalid('url', { code: 'ENDPOINT_PRIVATE' })
  url.hash = ''
  return url.href
}

function parseAddress(given: string): URL {
  try {
    return parseHttpUrl(given)
  } catch (cause) {
    throw notAnAddress(cause)
  }
}

/** `parseHttpUrl` throws for nothing else. */
function notAnAddress(_cause: unknown): AppError {
  return invalid('url', { code: 'ENDPOINT_ADDRESS' })
}
