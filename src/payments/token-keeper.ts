import { setTimeout as wait } from 'node:timers/promises'
import type { ClientName } from '../domain/client-name.ts'
import { SealedError } from '../domain/sealed.ts'
import { AppError } from '../errors.ts'
import { ProviderError, type TokenGrant, toAppError } from '../provider/provider.ts'
import {
  type ConnectionRow,
  findConnection,
  findConnectionsToRenew,
  markLost,
  markRefreshStarted,
  replaceTokens,
} from '../repositories/oauth.ts'
import { withLease } from '../repositories/with-lease.ts'
import { recordSuccess } from './activity.ts'
import { type Actor, type PaymentDeps, serviceActor } from './deps.ts'

/** A token that may be used now, and the account that it acts for. */
export type Access = {
  token: string
  mpUserId: number
  liveMode: boolean
  connectionVersion: number
  /** When it replaced another one; undefined for one that came with the connection itself. */
  renewedAt: Date | undefined
}

/** A token this close to its end is renewed before it is used. */
const expiryMarginMs = 60_000

/**
 * A token refused so soon after its renewal is not the trouble. Each renewal uses up a refresh token that works once, and
 * an answer lost on the way can end the connection: a provider that answers 401 to all must not make every call ask for one.
 */
const renewalRestMs = 60_000

/**
 * Calls the provider in the name of a client. A token that the provider refuses is renewed once and the call repeated;
 * writes carry their idempotency key, so the repetition is the same logical attempt. What it throws covers both calls: an
 * effect that the first one may have had stays unknown until the provider excludes it.
 *
 * Throws OAUTH_NOT_CONNECTED, CONNECTION_LOST, or whatever the call throws.
 */
export async function withAccess<T>(
  deps: PaymentDeps,
  client: ClientName,
  call: (access: Access) => Promise<T>,
): Promise<T> {
  const access = await currentAccess(deps, client)
  try {
    return await call(access)
  } catch (error) {
    if (!(error instanceof ProviderError) || error.kind !== 'unauthorized') throw error
    if (isJustRenewed(deps, access)) throw error
    try {
      await renewPatiently(deps, client, access.connectionVersion)
      return await call(await currentAccess(deps, client))
    } catch (later) {
      throw error.effect === 'unknown' && !saysWhatHappened(later) ? error : later
    }
  }
}

function isJustRenewed(deps: PaymentDeps, { renewedAt }: Access): boolean {
  if (!renewedAt) return false
  const ageMs = deps.now().getTime() - renewedAt.getTime()
  return ageMs >= 0 && ageMs < renewalRestMs
}

/**
 * Whether a failure of the repeated call speaks for the first call too. "No connection" and a refusal that is not about
 * the key do not: taken for "nothing was sent", they would turn a lost answer into a second charge or refund.
 */
function saysWhatHappened(error: unknown): boolean {
  if (error instanceof ProviderError) return error.provesAbsence || error.effect === 'unknown'
  return !(error instanceof AppError)
}

/** A till behind this call has some 25 s in all. */
const renewalPatienceMs = 6_000

/**
 * Waits for a renewal, but not for ever: whoever gives up leaves it running, since a renewal that is cut off could lose
 * the new pair. Throws PROVIDER_TIMEOUT then; nothing was sent in the client's name.
 */
async function renewPatiently(
  deps: PaymentDeps,
  client: ClientName,
  fromVersion: number,
): Promise<ConnectionRow> {
  const renewal = renewConnection(deps, client, fromVersion, serviceActor(deps.now()))
  renewal.catch((error) => deps.log.warn({ client, err: error }, 'a renewal failed'))
  const patience = new AbortController()
  try {
    return await Promise.race([
      renewal,
      wait(renewalPatienceMs, undefined, { signal: patience.signal }).then(() => {
        throw new AppError('PROVIDER_TIMEOUT', { message: 'The connection is still being renewed' })
      }),
    ])
  } finally {
    patience.abort()
  }
}

async function currentAccess(deps: PaymentDeps, client: ClientName): Promise<Access> {
  let connection = await usableConnection(deps, client)
  if (connection.expires_at.getTime() <= deps.now().getTime() + expiryMarginMs) {
    connection = await renewPatiently(deps, client, connection.version)
  }
  return {
    token: openToken(deps, client, 'access_token', connection.access_token),
    mpUserId: connection.mp_user_id,
    liveMode: connection.live_mode,
    connectionVersion: connection.version,
    renewedAt:
      connection.refreshed_at > connection.connected_at ? connection.refreshed_at : undefined,
  }
}

async function usableConnection(deps: PaymentDeps, client: ClientName): Promise<ConnectionRow> {
  const connection = await findConnection(deps.database.db, client)
  if (!connection) throw new AppError('OAUTH_NOT_CONNECTED')
  if (connection.status === 'lost') throw new AppError('CONNECTION_LOST')
  return connection
}

/**
 * A stored token in clear. Throws CONNECTION_LOST when it does not open: another process, or a restored backup, may have
 * brought one that was sealed with a key that this process was not given. Nothing is marked as lost, since the key helps.
 */
export function openToken(
  deps: Pick<PaymentDeps, 'sealer' | 'log'>,
  client: ClientName,
  field: 'access_token' | 'refresh_token',
  sealed: string,
): string {
  try {
    return deps.sealer.open(sealed, sealContext(client, field))
  } catch (error) {
    if (!(error instanceof SealedError)) throw error
    deps.log.error(
      { client, keyId: error.keyId, err: error },
      'a stored token cannot be opened: give this process the key (ENCRYPTION_KEYS), or connect the client again',
    )
    throw new AppError('CONNECTION_LOST', { cause: error })
  }
}

/** What a sealed token is bound to. */
export function sealContext(
  client: string,
  field: 'access_token' | 'refresh_token' | 'code_verifier',
): string {
  return `${field}:${client}`
}

const waitForOtherMs = 200
const longestWaitMs = 15_000

/**
 * Renews the pair that had `fromVersion`, once: whoever comes while it is being renewed, in this process or another,
 * gets the new pair. The new pair is stored before anybody uses it, since the provider's refresh token works once.
 *
 * Throws CONNECTION_LOST when the provider refuses, PROVIDER_TIMEOUT when its answer is not known.
 */
export async function renewConnection(
  deps: PaymentDeps,
  client: ClientName,
  fromVersion: number,
  actor: Actor,
): Promise<ConnectionRow> {
  return deps.once(`renew:${client}`, async () => {
    for (let waitedMs = 0; waitedMs < longestWaitMs; waitedMs += waitForOtherMs) {
      const connection = await usableConnection(deps, client)
      if (connection.version !== fromVersion) return connection
      const outcome = await withLease(deps, `oauth:${client}`, () =>
        renewHeld(deps, client, fromVersion, actor),
      )
      if (outcome) return outcome.result
      await deps.sleep(waitForOtherMs)
    }
    throw new AppError('SERVICE_UNAVAILABLE')
  })
}

async function renewHeld(
  deps: PaymentDeps,
  client: ClientName,
  fromVersion: number,
  actor: Actor,
): Promise<ConnectionRow> {
  const { database } = deps
  // Read again under the lease: its last holder may have renewed the pair.
  const connection = await usableConnection(deps, client)
  if (connection.version !== fromVersion) return connection
  const renewal = { fromVersion, startedAt: deps.now() }
  await markRefreshStarted(database.db, client, renewal)
  if (connection.refresh_token === null) {
    await markLost(database.db, client, renewal, 'no_refresh_token')
    throw new AppError('CONNECTION_LOST')
  }
  const refreshToken = openToken(deps, client, 'refresh_token', connection.refresh_token)
  const grant = await deps.provider.oauth.refresh(refreshToken).catch(async (error: unknown) => {
    if (!(error instanceof ProviderError)) throw error
    const failure = toAppError(error, 'oauth.refresh')
    // Only a refusal of this very token: wrong credentials of ours must not disconnect every shop.
    if (failure.code === 'CONNECTION_LOST') {
      await markLost(database.db, client, renewal, error.providerCode ?? 'refused')
      deps.log.error(
        { client, providerCode: error.providerCode },
        'the provider refused to renew a connection; the client must connect again',
      )
      throw new AppError('CONNECTION_LOST', { cause: error })
    }
    throw failure
  })
  await database.transaction(async (trx) => {
    const replaced = await replaceTokens(
      trx,
      client,
      renewal,
      sealGrant(deps, client, grant, connection),
    )
    if (replaced) {
      await recordSuccess(deps, trx, {
        client,
        actor,
        action: 'oauth.refreshed',
        resourceType: 'oauth',
        resourceId: client,
      })
    }
  })
  return usableConnection(deps, client)
}

/** The columns of a new pair. Fields that the provider leaves out of a renewal keep their old values. */
export function sealGrant(
  deps: Pick<PaymentDeps, 'sealer' | 'now'>,
  client: ClientName,
  grant: TokenGrant,
  before?: ConnectionRow,
) {
  const now = deps.now()
  return {
    access_token: deps.sealer.seal(grant.accessToken, sealContext(client, 'access_token')),
    refresh_token:
      grant.refreshToken === null
        ? (before?.refresh_token ?? null)
        : deps.sealer.seal(grant.refreshToken, sealContext(client, 'refresh_token')),
    public_key: grant.publicKey ?? before?.public_key ?? null,
    // Unknown counts as live: a live account must never be taken for a test one.
    live_mode: grant.liveMode ?? before?.live_mode ?? true,
    expires_at: new Date(now.getTime() + grant.expiresInSeconds * 1000),
    refreshed_at: now,
  }
}

const dayMs = 24 * 3600_000
/** Half of the provider's 180 days. */
const halfLifeMs = 90 * dayMs

/** Renews what is past half of its life; a connection whose renewal fails is tried again by the next call. */
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
      deps.log.error({ client, err: error }, 'a connection could not be renewed'),
    )
  }
}
