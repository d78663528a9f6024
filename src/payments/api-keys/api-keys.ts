import { randomBytes, randomUUID } from 'node:crypto'
import { asClientName } from '../../domain/client-name.ts'
import { hashSecret } from '../../domain/secret-hash.ts'
import { AppError } from '../../errors/app-error.ts'
import {
  findKeyById,
  insertApiKey,
  revokeApiKeys,
  revokeKeyById,
} from '../../repositories/api-keys/api-key-queries.ts'
import { lockClient } from '../../repositories/connection/clients.ts'
import { findConnection } from '../../repositories/connection/connection-queries.ts'
import { auditFailure, recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'

/** A new key value: `mk_` and 64 hexadecimal characters (256 random bits). Shown once, never stored. */
export function newApiKey(): string {
  return `mk_${randomBytes(32).toString('hex')}`
}

/** `mk_1a2b…9f0e`: enough to recognise a key; the ellipsis makes it invalid as a key. */
export function maskApiKey(value: string): string {
  return `${value.slice(0, 7)}…${value.slice(-4)}`
}

type CreatedKey = { id: string; key: string; mpUserId: number; nickname: string | null }

/**
 * Makes a key for a connected client and returns its value, which is stored nowhere. The account that it charges for is returned
 * too, so that the administrator sees who gets the money.
 *
 * @throws OAUTH_NOT_CONNECTED
 */
export async function createApiKey(
  deps: PaymentDeps,
  request: { client: string; description: string | null },
  actor: Actor,
): Promise<CreatedKey> {
  const entry = {
    client: request.client,
    actor,
    action: 'api_key.created',
    resourceId: null,
  }
  return auditFailure(deps, entry, async () => {
    const client = asClientName(request.client)
    const key = newApiKey()
    const id = randomUUID()
    return deps.database.transaction(async (trx) => {
      // Locked as when a connection ends: the key's account cannot change before the key exists and can end with it.
      const account = await lockClient(trx, client)
      const connection = await findConnection(trx, client)
      const now = deps.now()
      if (!connection || connection.status === 'lost' || connection.expires_at <= now) {
        throw new AppError('OAUTH_NOT_CONNECTED')
      }
      await insertApiKey(trx, {
        id,
        client,
        key_hash: hashSecret(key),
        key_mask: maskApiKey(key),
        mp_user_id: connection.mp_user_id,
        description: request.description,
        active: true,
        created_at: now,
        last_used_at: null,
        revoked_at: null,
      })
      await recordSuccess(deps, trx, { ...entry, resourceId: id })
      return { id, key, mpUserId: connection.mp_user_id, nickname: account?.mp_nickname ?? null }
    })
  })
}

/**
 * Revokes all keys of a client at once.
 *
 * @throws NOT_FOUND when it has no valid key
 */
export async function revokeClientKeys(
  deps: PaymentDeps,
  client: string,
  actor: Actor,
): Promise<number> {
  const entry = {
    client,
    actor,
    action: 'api_key.revoked',
    resourceId: client,
  }
  return auditFailure(deps, entry, () =>
    deps.database.transaction(async (trx) => {
      const revoked = await revokeApiKeys(trx, client, deps.now())
      if (revoked === 0) {
        throw new AppError('NOT_FOUND', { message: 'The client has no active API key' })
      }
      await recordSuccess(deps, trx, { ...entry, metadata: { revoked } })
      return revoked
    }),
  )
}

/**
 * Revokes one key at once; the client's other keys stay valid.
 *
 * @throws NOT_FOUND when it is unknown or already revoked
 */
export async function revokeApiKey(deps: PaymentDeps, id: string, actor: Actor): Promise<void> {
  const known = await findKeyById(deps.database.db, id)
  const entry = {
    client: known?.client ?? null,
    actor,
    action: 'api_key.revoked',
    resourceId: id,
  }
  await auditFailure(deps, entry, () =>
    deps.database.transaction(async (trx) => {
      if (!(await revokeKeyById(trx, id, deps.now()))) {
        throw new AppError('NOT_FOUND', { message: 'There is no active API key with this id' })
      }
      await recordSuccess(deps, trx, { ...entry, metadata: { revoked: 1 } })
    }),
  )
}
