import type { ClientName } from '../../domain/client-name.ts'
import { connectionContext, DecryptionError } from '../../domain/encryption.ts'
import { AppError } from '../../errors/app-error.ts'
import { withLease } from '../../jobs/with-lease.ts'
import { ProviderError, type TokenGrant, toAppError } from '../../provider/provider.ts'
import { insertConnectionEvent } from '../../repositories/connection/connection-events.ts'
import {
  beginRenewal,
  type ConnectionRow,
  dropRefreshToken,
  endRenewal,
  findConnection,
  findConnectionsToRenew,
  markLost,
  type Renewal,
  replaceTokens,
  type UsedConnection,
} from '../../repositories/connection/connection-queries.ts'
import { recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { serviceActor } from '../request-context.ts'

/** The client's connection, for a call.
 * @throws OAUTH_NOT_CONNECTED, CONNECTION_LOST */
export async function usableConnection(
  deps: PaymentDeps,
  client: ClientName,
): Promise<ConnectionRow> {
  return usable(await findConnection(deps.database.db, client))
}

export function usable<Row extends UsedConnection>(connection: Row | undefined): Row {
  if (!connection) throw new AppError('OAUTH_NOT_CONNECTED')
  if (connection.status === 'lost') throw new AppError('CONNECTION_LOST')
  return connection
}

/**
 * A stored token in clear.
 *
 * @throws CONNECTION_LOST when it cannot be decrypted: another process, or a restored backup, may have stored one with a key that
 * this process does not have. The connection is not marked as lost, since adding the key repairs it.
 */
export function openToken(
  deps: Pick<PaymentDeps, 'encryption' | 'log'>,
  client: ClientName,
  field: 'access_token' | 'refresh_token',
  encrypted: string,
): string {
  try {
    return deps.encryption.decrypt(encrypted, connectionContext(client, field))
  } catch (error) {
    if (!(error instanceof DecryptionError)) throw error
    deps.log.error(
      { client, keyId: error.keyId, err: error },
      'stored token not decrypted: add its key to ENCRYPTION_KEYS, or connect the client again',
    )
    throw new AppError('CONNECTION_LOST', { cause: error })
  }
}

const waitForOtherMs = 200
const longestWaitMs = 15_000

/**
 * A process that started a renewal may store the pair this long after, although its lease has ended: it was paused, or the
 * database was away. A refresh token works once, so an earlier attempt would only be refused.
 */
const mayStillComeMs = 30_000
/** It may also do so this long after the database is back: a process that waits to store a pair needs a moment. */
const seenAtLeastMs = 5_000
/** A lease that was acquired longer ago than this, by a paused process, may belong to another process by now. */
const turnMs = 5_000

const firstStoreAgainMs = 100
const longestStoreAgainMs = 2_000

/**
 * Renews the pair of `fromVersion` once: every other caller, in this process or another, gets the new pair. The new pair is
 * stored before it is used, since the provider's refresh token works once.
 *
 * When only the refresh token is refused, the pair is returned without it while its access token is valid.
 *
 * @throws CONNECTION_LOST when the provider refuses both, PROVIDER_TIMEOUT when its answer is unknown, SERVICE_UNAVAILABLE while
 * a dead or paused process may still store its pair
 */
export async function renewConnection(
  deps: PaymentDeps,
  client: ClientName,
  fromVersion: number,
  actor: Actor,
): Promise<ConnectionRow> {
  const renewInTurn = async (givenUp: AbortSignal) => {
    for (let waitedMs = 0; waitedMs < longestWaitMs; waitedMs += waitForOtherMs) {
      const connection = await usableConnection(deps, client)
      if (connection.version !== fromVersion) return connection
      if (!mayPairStillCome(connection, deps.now(), waitedMs)) {
        const turn = await withLease(deps, `oauth:${client}`, () =>
          renewFrom(deps, connection, actor, givenUp),
        )
        if (turn?.result) return turn.result
      }
      if (givenUp.aborted) break
      await deps.sleep(waitForOtherMs)
    }
    throw new AppError('SERVICE_UNAVAILABLE', { message: 'The connection is still being renewed' })
  }
  return deps.once(`renew:${client}`, () => deps.unfinished.run(renewInTurn))
}

/** Whether a renewal of this pair was started and has no known end, and its process may still store the new pair. */
function mayPairStillCome(
  { refresh_started_at: startedAt }: ConnectionRow,
  now: Date,
  seenForMs: number,
): boolean {
  if (startedAt === null) return false
  const ageMs = now.getTime() - startedAt.getTime()
  // A time in the future was written before the clock was set back.
  const isRecent = ageMs < mayStillComeMs && ageMs > -mayStillComeMs
  return isRecent || seenForMs < seenAtLeastMs
}

/** Undefined when the pair is no longer `connection`'s, or another renewal may decide it: read again then. */
async function renewFrom(
  deps: PaymentDeps,
  connection: ConnectionRow,
  actor: Actor,
  givenUp: AbortSignal,
): Promise<ConnectionRow | undefined> {
  const { db } = deps.database
  const { client, refresh_token: encrypted } = connection
  const refreshToken =
    encrypted === null ? null : openToken(deps, client, 'refresh_token', encrypted)
  const renewal = { from: connection, startedAt: deps.now() }
  const askedMs = performance.now()
  if (!(await beginRenewal(db, connection, renewal.startedAt))) return undefined
  if (refreshToken === null) return endRefused(deps, connection, renewal, 'no_refresh_token')
  if (performance.now() - askedMs > turnMs) {
    await endRenewal(db, renewal)
    return undefined
  }
  let grant: TokenGrant
  try {
    grant = await deps.provider.oauth.refresh(refreshToken)
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    const failure = toAppError(error, 'oauth.refresh')
    // Only a refusal of this very token counts: wrong credentials of this service must not disconnect every shop.
    if (failure.code === 'CONNECTION_LOST') {
      return endRefused(deps, connection, renewal, error.providerCode ?? 'refused', error)
    }
    await endRenewal(db, renewal).catch((cause) =>
      deps.log.warn(
        { client, err: cause },
        'end of a failed token renewal not stored; other requests wait for it',
      ),
    )
    throw failure
  }
  await storePair(deps, connection, grant, actor, givenUp)
  return usableConnection(deps, client)
}

/**
 * For a refused or missing refresh token. While the access token is valid, the connection stays without a refresh token. When
 * that expires, or the provider refuses it too, the connection is lost.
 */
async function endRefused(
  deps: PaymentDeps,
  connection: ConnectionRow,
  renewal: Renewal,
  reason: string,
  cause?: ProviderError,
): Promise<ConnectionRow | undefined> {
  const { client, expires_at: expiresAt } = connection
  if (expiresAt <= deps.now() || !(await isAccepted(deps, connection))) {
    return endAsLost(deps, renewal, reason, cause)
  }
  if (!(await dropRefreshToken(deps.database.db, renewal))) return undefined
  deps.log.error(
    { client, reason, expiresAt },
    'connection can no longer be renewed; connect the client again before its access token expires',
  )
  return usableConnection(deps, client)
}

/** How long the check of an access token may take. */
const acceptedWithinMs = 6_000

/** Whether the provider accepts the access token. Without an answer it counts as accepted. */
async function isAccepted(
  deps: PaymentDeps,
  { client, access_token: encrypted }: ConnectionRow,
): Promise<boolean> {
  try {
    const token = openToken(deps, client, 'access_token', encrypted)
    await deps.provider.users.me(token, { untilMs: deps.stopwatch() + acceptedWithinMs })
    return true
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    return error.kind !== 'unauthorized'
  }
}

/**
 * Marks the connection as lost: the provider has refused the pair, or it cannot be renewed. Undefined when that is not proven:
 * the pair is an old one, or another process has started to renew it and may be the cause.
 */
async function endAsLost(
  deps: PaymentDeps,
  renewal: Renewal,
  reason: string,
  cause?: ProviderError,
): Promise<undefined> {
  const { client } = renewal.from
  const isLost = await deps.database.transaction(async (trx) => {
    const isMarked = await markLost(trx, renewal, reason)
    if (isMarked) await insertConnectionEvent(trx, client, 'lost', { at: deps.now(), reason })
    return isMarked
  })
  if (!isLost) return undefined
  deps.log.error(
    { client, reason },
    'provider refused the token renewal; the client must connect again',
  )
  throw new AppError('CONNECTION_LOST', { cause })
}

/**
 * Stores a new pair, and retries as long as this process lives: the old refresh token is used up, so the pair cannot be obtained
 * again. It is not used before it is stored: a crash would lose it, and without the database there is no call to make.
 */
async function storePair(
  deps: PaymentDeps,
  from: ConnectionRow,
  grant: TokenGrant,
  actor: Actor,
  givenUp: AbortSignal,
): Promise<void> {
  const { client } = from
  const tokens = encryptGrant(deps, client, grant, from)
  for (let waitMs = firstStoreAgainMs; ; waitMs = Math.min(2 * waitMs, longestStoreAgainMs)) {
    try {
      await deps.database.transaction(async (trx) => {
        if (!(await replaceTokens(trx, from, tokens))) return
        if (from.status === 'lost') {
          await insertConnectionEvent(trx, client, 'connected', { at: deps.now() })
        }
        await recordSuccess(deps, trx, {
          client,
          actor,
          action: 'oauth.refreshed',
          resourceId: client,
        })
      })
      return
    } catch (error) {
      if (givenUp.aborted) throw error
      deps.log.error({ client, err: error }, 'new tokens not stored yet; the service retries')
      await deps.sleep(waitMs, givenUp).catch(() => undefined)
    }
  }
}

/** The columns of a new pair. Fields that the provider omits in a renewal keep their old values. */
export function encryptGrant(
  deps: Pick<PaymentDeps, 'encryption' | 'now'>,
  client: ClientName,
  grant: TokenGrant,
  before?: ConnectionRow,
) {
  const now = deps.now()
  return {
    access_token: deps.encryption.encrypt(
      grant.accessToken,
      connectionContext(client, 'access_token'),
    ),
    refresh_token:
      grant.refreshToken === null
        ? (before?.refresh_token ?? null)
        : deps.encryption.encrypt(grant.refreshToken, connectionContext(client, 'refresh_token')),
    public_key: grant.publicKey ?? before?.public_key ?? null,
    // Unknown counts as live: a live account must never be treated as a test one.
    live_mode: grant.liveMode ?? before?.live_mode ?? true,
    expires_at: new Date(now.getTime() + grant.expiresInSeconds * 1000),
    refreshed_at: now,
  }
}

const dayMs = 24 * 3600_000
/** Half of the provider's 180 days. */
const halfLifeMs = 90 * dayMs

/** Renews tokens that are past half of their life; a connection whose renewal fails is tried again by the next call. */
export async function renewDueConnections(deps: PaymentDeps): Promise<void> {
  const now = deps.now()
  const due = await findConnectionsToRenew(deps.database.db, {
    refreshedBefore: new Date(now.getTime() - halfLifeMs),
    expiresBefore: new Date(now.getTime() + dayMs),
  })
  for (const client of due) {
    const connection = await findConnection(deps.database.db, client)
    if (!connection) continue
    await renewConnection(deps, client, connection.version, serviceActor(now)).catch((error) =>
      deps.log.error({ client, err: error }, 'connection not renewed'),
    )
  }
}
