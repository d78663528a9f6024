import { asClientName } from '../../domain/client-name.ts'
import { AppError } from '../../errors/app-error.ts'
import { findNewestActiveKey } from '../../repositories/api-keys/api-key-queries.ts'
import { findClient, listClients } from '../../repositories/connection/clients.ts'
import { findConnection } from '../../repositories/connection/connection-queries.ts'
import { recordSuccess } from '../audit/activity.ts'
import { openToken } from '../connection/oauth-tokens.ts'
import type { Actor, PaymentDeps } from '../deps.ts'

/**
 * All that the administrator may read of a client, including its tokens in clear, as the specification requires. Every such read
 * is audited. With ADMIN_MASK_TOKENS the tokens are masked.
 *
 * @throws NOT_FOUND
 */
export async function readClientInformation(deps: PaymentDeps, name: string, actor: Actor) {
  const { db } = deps.database
  const row = await findClient(db, name)
  if (!row) throw new AppError('NOT_FOUND', { message: 'There is no such client' })
  const client = row.name
  const connection = await findConnection(db, client)
  await deps.keyUses.flush()
  const key = await findNewestActiveKey(db, client)
  const show = (field: 'access_token' | 'refresh_token') => {
    const encrypted = connection?.[field] ?? null
    if (encrypted === null) return null
    const token = readableToken(deps, client, field, encrypted)
    if (token === null) return null
    return deps.settings.maskTokens ? `${token.slice(0, 8)}…${token.slice(-4)}` : token
  }
  if (connection) {
    await deps.database.transaction((trx) =>
      recordSuccess(deps, trx, {
        client,
        actor,
        action: 'client.tokens_read',
        resourceId: client,
        metadata: { masked: deps.settings.maskTokens },
      }),
    )
  }
  return {
    client,
    nickname: row.mp_nickname,
    pinnedMpUserId: row.mp_user_id,
    createdAt: row.created_at,
    oauth: {
      authenticated: connection?.status === 'connected' && connection.expires_at > deps.now(),
      mpUserId: connection?.mp_user_id ?? null,
      liveMode: connection?.live_mode ?? null,
      expiresAt: connection?.expires_at ?? null,
      accessToken: show('access_token'),
      refreshToken: show('refresh_token'),
      publicKey: connection?.public_key ?? null,
    },
    apiKey: {
      active: key !== undefined,
      key: key?.key_mask ?? null,
      lastUsedAt: key?.last_used_at ?? null,
    },
  }
}

/** null, with a line in the log, for one that cannot be decrypted: the rest of the answer is still useful. */
function readableToken(...of: Parameters<typeof openToken>): string | null {
  try {
    return openToken(...of)
  } catch (error) {
    if (error instanceof AppError && error.code === 'CONNECTION_LOST') return null
    throw error
  }
}

/** A summary of every client, without tokens. */
export async function readClientSummaries(deps: PaymentDeps) {
  const rows = await listClients(deps.database.db)
  const now = deps.now()
  return rows.map((row) => ({
    client: asClientName(row.name),
    nickname: row.mp_nickname,
    connection: stateOf(row, now),
    liveMode: row.live_mode,
    expiresAt: row.expires_at,
    activeKeys: row.active_keys ?? 0,
    createdAt: row.created_at,
  }))
}

function stateOf(
  { connection_status: status, expires_at: until }: Awaited<ReturnType<typeof listClients>>[number],
  now: Date,
): 'connected' | 'expired' | 'lost' | 'none' {
  if (status === null || until === null) return 'none'
  if (status === 'lost') return 'lost'
  return until <= now ? 'expired' : 'connected'
}
