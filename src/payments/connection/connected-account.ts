import { asClientName, type ClientName } from '../../domain/client-name.ts'
import { AppError } from '../../errors/app-error.ts'
import { lockClient, setPinnedAccount } from '../../repositories/connection/clients.ts'
import {
  deleteConnection,
  findConnection,
} from '../../repositories/connection/connection-queries.ts'
import { auditFailure, recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { renewConnection } from './oauth-tokens.ts'

/** Whether a client is connected, and until when. Without a connection the fields about it are null. */
export async function connectionStatus(deps: PaymentDeps, client: ClientName) {
  const connection = await findConnection(deps.database.db, client)
  const leftMs = connection && connection.expires_at.getTime() - deps.now().getTime()
  return {
    authenticated: connection?.status === 'connected' && connection.expires_at > deps.now(),
    client,
    mpUserId: connection?.mp_user_id ?? null,
    liveMode: connection?.live_mode ?? null,
    expiresAt: connection?.expires_at ?? null,
    expiresInHours: leftMs === undefined ? null : Math.max(0, Math.round(leftMs / 36_000) / 100),
    expired: leftMs !== undefined && leftMs <= 0,
  }
}

/**
 * Renews the tokens now, whatever their age.
 *
 * @throws CONFLICT for a valid access token without a valid refresh token: it stays in use, and only a new connection replaces it
 */
export async function refreshConnection(
  deps: PaymentDeps,
  client: ClientName,
  actor: Actor,
): Promise<{ expiresAt: Date }> {
  const entry = {
    client,
    actor,
    action: 'oauth.refreshed',
    resourceId: client,
  }
  return auditFailure(deps, entry, async () => {
    const connection = await findConnection(deps.database.db, client)
    if (!connection) throw new AppError('OAUTH_NOT_CONNECTED')
    if (connection.refresh_token === null && connection.expires_at > deps.now()) {
      throw notRenewable()
    }
    const renewed = await renewConnection(deps, client, connection.version, actor)
    if (renewed.version === connection.version) throw notRenewable()
    return { expiresAt: renewed.expires_at }
  })
}

function notRenewable(): AppError {
  return new AppError('CONFLICT', {
    message:
      'The provider has no valid refresh token for this client; the access token is used until it expires. Connect the client again to replace it',
  })
}

/** Deletes the tokens. Keys and the pinned account stay. */
export async function logout(deps: PaymentDeps, client: ClientName, actor: Actor): Promise<void> {
  const entry = {
    client,
    actor,
    action: 'oauth.logout',
    resourceId: client,
  }
  await auditFailure(deps, entry, () =>
    deps.database.transaction(async (trx) => {
      if (!(await deleteConnection(trx, client))) throw new AppError('OAUTH_NOT_CONNECTED')
      await recordSuccess(deps, trx, entry)
    }),
  )
}

/**
 * Lets the next connection of this client choose its account, which then needs an invitation or the administrator.
 *
 * @throws NOT_FOUND
 */
export async function unpinAccount(
  deps: PaymentDeps,
  name: string,
  actor: Actor,
): Promise<{ mpUserId: number | null }> {
  const client = asClientName(name)
  const entry = {
    client,
    actor,
    action: 'client.unpinned',
    resourceId: client,
  }
  return auditFailure(deps, entry, () =>
    deps.database.transaction(async (trx) => {
      const row = await lockClient(trx, client)
      if (!row) throw new AppError('NOT_FOUND', { message: 'There is no such client' })
      await setPinnedAccount(trx, client, null)
      await recordSuccess(deps, trx, { ...entry, metadata: { mp_user_id: row.mp_user_id } })
      return { mpUserId: row.mp_user_id }
    }),
  )
}

/** @throws OAUTH_ALREADY_CONNECTED for a client with valid tokens */
export async function refuseConnected(deps: PaymentDeps, client: ClientName): Promise<void> {
  const connection = await findConnection(deps.database.db, client)
  if (connection?.status === 'connected' && connection.expires_at > deps.now()) {
    throw new AppError('OAUTH_ALREADY_CONNECTED')
  }
}
