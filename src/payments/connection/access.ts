import { setTimeout as wait } from 'node:timers/promises'
import type { ClientName } from '../../domain/client-name.ts'
import { AppError } from '../../errors/app-error.ts'
import { type CallOptions, ProviderError } from '../../provider/provider.ts'
import type {
  ConnectionRow,
  UsedConnection,
} from '../../repositories/connection/connection-queries.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import type { PaymentDeps } from '../deps.ts'
import { type RequestContext, serviceActor } from '../request-context.ts'
import { openToken, renewConnection, usable, usableConnection } from './oauth-tokens.ts'

/** A valid token, and the account that it acts for. */
export type Access = {
  token: string
  mpUserId: number
  liveMode: boolean
  connectionVersion: number
  /** When it replaced another token; undefined for one that came with the connection itself. */
  renewedAt: Date | undefined
}

/** A connection that this request has read already. */
export type KnownConnection = {
  row: UsedConnection
  /** performance.now() before the database's answer, when it was read or found unchanged. */
  seenMs: number
  /** Its access token in clear, once a call of this request has used it. */
  token?: string
}

type AccessOptions = CallOptions & {
  known?: KnownConnection | undefined
  /** The provider account that the call is about; another one is refused. */
  account?: number | undefined
}

/** A connection that was read this long ago is read again, so that its end or change takes effect at once. */
const knownForMs = 1_000

/** A token that expires within this time is renewed before it is used. */
const expiryMarginMs = 60_000

/** A till that waits for this call needs time for the call itself. */
const renewalPatienceMs = 6_000

/**
 * When a token is refused so soon after its renewal, the token is not the cause. Each renewal uses up a refresh token that works
 * once, and a lost answer can end the connection. So a provider that answers 401 to everything must not make every call renew.
 */
const renewalRestMs = 60_000

/**
 * Calls the provider with a client's token. A token that the provider refuses is renewed once and the call repeated. Writes carry
 * their idempotency key, so the repeat is the same logical attempt. An error covers both calls: a possible effect of the first
 * one stays unknown until the provider excludes it. The caller's deadline (`untilMs`) also limits the wait for a renewal.
 *
 * @throws OAUTH_NOT_CONNECTED, CONNECTION_LOST, ACCOUNT_MISMATCH, or the error of the call
 */
export async function withAccess<T>(
  deps: PaymentDeps,
  client: ClientName,
  call: (access: Access, options: CallOptions) => Promise<T>,
  { known, account, ...options }: AccessOptions = {},
): Promise<T> {
  const access = await currentAccess(deps, client, { known, account, ...options })
  try {
    return await call(access, options)
  } catch (error) {
    if (!(error instanceof ProviderError) || error.kind !== 'unauthorized') throw error
    if (isJustRenewed(deps, access)) throw error
    try {
      await renewPatiently(deps, client, access.connectionVersion, options.untilMs)
      return await call(await currentAccess(deps, client, { account, ...options }), options)
    } catch (later) {
      throw error.effect === 'unknown' && !saysWhatHappened(later) ? error : later
    }
  }
}

/**
 * For a call about an order: it takes the account that the order was made on. Another account's "not found" proves nothing, and a key
 * sent there would charge again.
 */
export function aboutOrder(
  { client, id, mp_user_id }: Pick<OrderRow, 'client' | 'id' | 'mp_user_id'>,
  { source, untilMs }: RequestContext,
  known?: KnownConnection,
): AccessOptions {
  return { about: { client, orderId: id, source }, untilMs, account: mp_user_id, known }
}

function isJustRenewed(deps: PaymentDeps, { renewedAt }: Access): boolean {
  if (!renewedAt) return false
  const ageMs = deps.now().getTime() - renewedAt.getTime()
  return ageMs >= 0 && ageMs < renewalRestMs
}

/**
 * Whether a failure of the repeated call also covers the first call. "No connection" and a refusal that is not about the key do
 * not. Treated as "nothing was sent", they would turn a lost answer into a second charge or refund.
 */
function saysWhatHappened(error: unknown): boolean {
  if (error instanceof ProviderError) return error.provesAbsence || error.effect === 'unknown'
  return !(error instanceof AppError)
}

/**
 * Waits for a renewal, but only for a limited time. After it the renewal keeps running: aborting it could lose the new pair.
 *
 * @throws PROVIDER_TIMEOUT after that time; nothing was sent with the client's token
 */
async function renewPatiently(
  deps: PaymentDeps,
  client: ClientName,
  fromVersion: number,
  untilMs = Number.POSITIVE_INFINITY,
): Promise<ConnectionRow> {
  const patienceMs = Math.min(renewalPatienceMs, Math.max(0, untilMs - deps.stopwatch()))
  const renewal = renewConnection(deps, client, fromVersion, serviceActor(deps.now()))
  renewal.catch((error) => deps.log.warn({ client, err: error }, 'token renewal failed'))
  const patience = new AbortController()
  try {
    return await Promise.race([
      renewal,
      wait(patienceMs, undefined, { signal: patience.signal }).then(() => {
        throw new AppError('PROVIDER_TIMEOUT', { message: 'The connection is still being renewed' })
      }),
    ])
  } finally {
    patience.abort()
  }
}

async function currentAccess(
  deps: PaymentDeps,
  client: ClientName,
  { known, account, untilMs }: AccessOptions,
): Promise<Access> {
  const isFresh = known !== undefined && performance.now() - known.seenMs < knownForMs
  let connection: UsedConnection = isFresh
    ? usable(known.row)
    : await usableConnection(deps, client)
  // A token that cannot be renewed is used to its last second.
  const marginMs = connection.refresh_token === null ? 0 : expiryMarginMs
  if (connection.expires_at.getTime() <= deps.now().getTime() + marginMs) {
    connection = await renewPatiently(deps, client, connection.version, untilMs)
  }
  if (account !== undefined && connection.mp_user_id !== account) throw accountMismatch()
  const opened = connection === known?.row ? known.token : undefined
  const token = opened ?? openToken(deps, client, 'access_token', connection.access_token)
  if (connection === known?.row) known.token = token
  return {
    token,
    mpUserId: connection.mp_user_id,
    liveMode: connection.live_mode,
    connectionVersion: connection.version,
    renewedAt:
      connection.refreshed_at > connection.connected_at ? connection.refreshed_at : undefined,
  }
}

function accountMismatch(): AppError {
  return new AppError('ACCOUNT_MISMATCH', {
    message: 'The order belongs to the provider account that the client had before',
  })
}
