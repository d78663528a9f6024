import { sql } from 'kysely'
import type { Database } from '../../src/db/database.ts'
import { asClientName } from '../../src/domain/client-name.ts'
import {
  connectionContext,
  createEncryption,
  type EncryptionKey,
} from '../../src/domain/encryption.ts'
import { recordSuccess } from '../../src/payments/audit/activity.ts'
import { openAuditKey } from '../../src/payments/audit/audit-key.ts'
import { serviceActor } from '../../src/payments/request-context.ts'
import { insertClientIfAbsent } from '../../src/repositories/connection/clients.ts'
import {
  insertState,
  upsertConnection,
} from '../../src/repositories/connection/connection-queries.ts'

/** A connected client, a login under way and an audit entry, all under the first of the keys. */
export async function seedEncrypted(
  database: Database,
  keys: EncryptionKey[],
  name = 'acme',
): Promise<void> {
  const encryption = createEncryption(keys)
  const client = asClientName(name)
  const now = new Date()
  const auditKey = await openAuditKey(database, encryption, now)
  await database.transaction(async (trx) => {
    await insertClientIfAbsent(trx, client, now)
    await upsertConnection(trx, {
      client,
      mp_user_id: 1801,
      live_mode: false,
      access_token: encryption.encrypt(
        `access of ${name}`,
        connectionContext(client, 'access_token'),
      ),
      refresh_token: encryption.encrypt(
        `refresh of ${name}`,
        connectionContext(client, 'refresh_token'),
      ),
      public_key: null,
      scope: null,
      expires_at: new Date(now.getTime() + 86_400_000),
      connected_at: now,
      refreshed_at: now,
      refresh_started_at: null,
      status: 'connected',
      lost_reason: null,
    })
    await insertState(trx, {
      state_hash: `state of ${name}`,
      client,
      code_verifier: encryption.encrypt(
        `verifier of ${name}`,
        connectionContext(client, 'code_verifier'),
      ),
      target_url: null,
      may_choose_account: false,
      browser_hash: null,
      created_at: now,
      expires_at: new Date(now.getTime() + 600_000),
    })
    await recordSuccess({ auditKey, now: () => now, database: { announce: () => {} } }, trx, {
      client,
      actor: serviceActor(now),
      action: 'oauth.connected',
      resourceId: client,
    })
  })
}

/** Everything that a start with the wrong keys must leave as it is. */
export async function encryptedRows(database: Database): Promise<unknown> {
  const { rows } = await sql`
    select (select jsonb_agg(t order by t.client) from oauth_connections t) as connections,
      (select jsonb_agg(t order by t.state_hash) from oauth_states t) as states,
      (select jsonb_agg(t order by t.seq) from activity_log t) as log,
      (select jsonb_agg(t) from activity_head t) as head,
      (select jsonb_agg(t order by t.name) from settings t) as settings`.execute(database.db)
  return rows
}
