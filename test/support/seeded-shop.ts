import { randomUUID } from 'node:crypto'
import { grantTokens } from '../../sandbox/oauth.ts'
import { pairTerminal } from '../../sandbox/pairing.ts'
import { addPos, newPos } from '../../sandbox/pos.ts'
import type { Seller } from '../../sandbox/rows.ts'
import { defaultSeller, sellerByText } from '../../sandbox/sellers.ts'
import { addStore } from '../../sandbox/stores.ts'
import type { Trx } from '../../src/db/database.ts'
import { asClientName } from '../../src/domain/client-name.ts'
import { encodeExternalId } from '../../src/domain/provider-names.ts'
import { hashSecret } from '../../src/domain/secret-hash.ts'
import { maskApiKey, newApiKey } from '../../src/payments/api-keys/api-keys.ts'
import {
  type ActivityEntry,
  notifyActivity,
  signSuccess,
} from '../../src/payments/audit/activity.ts'
import { encryptGrant } from '../../src/payments/connection/oauth-tokens.ts'
import { insertApiKey } from '../../src/repositories/api-keys/api-key-queries.ts'
import { appendActivity } from '../../src/repositories/audit/activity-queries.ts'
import { keepSite } from '../../src/repositories/closings/closing-queries.ts'
import { upsertConnection } from '../../src/repositories/connection/connection-queries.ts'
import { insertPos, insertStore } from '../../src/repositories/stores/store-queries.ts'
import type { TestService } from './service.ts'
import type { Shop, Till } from './till.ts'

const storeId = 'SUC-1'
const boxId = 'CAJA-1'

export const storeLocation = {
  streetName: 'Av. Corrientes',
  streetNumber: '1234',
  cityName: 'Balvanera',
  stateName: 'Capital Federal',
  latitude: -34.6037,
  longitude: -58.3816,
  reference: null,
}

/** Writes what `enrolThroughApi` leaves, without its requests. Undefined for a client that exists: nothing is written. */
export async function seedTill(
  service: TestService,
  client: string,
  account: string | undefined,
): Promise<Till | undefined> {
  return seed(service, client, account, async () => [])
}

/** The same for `openShopThroughApi`. */
export async function seedShop(
  service: TestService,
  client: string,
  account: string | undefined,
): Promise<Shop | undefined> {
  let terminalId = ''
  const till = await seed(service, client, account, async (trx, seller, keyId) => {
    const seeded = await seedStore(service, trx, { client, seller, keyId })
    terminalId = seeded.terminalId
    return seeded.entries
  })
  return till && { ...till, terminalId }
}

type Entry = Pick<ActivityEntry, 'action' | 'resourceId' | 'metadata'> & { keyId?: string }

async function seed(
  service: TestService,
  client: string,
  account: string | undefined,
  more: (trx: Trx, seller: Seller, keyId: string) => Promise<Entry[]>,
): Promise<Till | undefined> {
  const { deps, sandbox } = service
  const name = asClientName(client)
  const key = newApiKey()
  const keyId = randomUUID()
  const now = deps.now()
  const { context } = sandbox
  const seller = account === undefined ? defaultSeller(context) : sellerByText(context, account)
  if (!seller) throw new Error(`${account} is no account number`)
  const mpUserId = seller.id

  const written = await deps.database.transaction(async (trx) => {
    const added = await trx
      .insertInto('clients')
      .values({ name, mp_user_id: mpUserId, mp_nickname: seller.nickname, created_at: now })
      .onConflict((conflict) => conflict.column('name').doNothing())
      .returning('name')
      .executeTakeFirst()
    if (!added) return undefined
    const given = grantTokens(context, seller)
    const grant = {
      accessToken: given.access_token,
      refreshToken: given.refresh_token ?? null,
      expiresInSeconds: given.expires_in,
      mpUserId,
      publicKey: given.public_key,
      liveMode: given.live_mode,
      scope: given.scope,
    }
    const tokens = encryptGrant(deps, name, grant)
    await upsertConnection(trx, {
      client: name,
      mp_user_id: mpUserId,
      ...tokens,
      scope: grant.scope,
      connected_at: tokens.refreshed_at,
      refresh_started_at: null,
      status: 'connected',
      lost_reason: null,
    })
    await keepSite(trx, { mpUserId, siteId: seller.siteId ?? 'MLA', at: now })
    await insertApiKey(trx, {
      id: keyId,
      client: name,
      key_hash: hashSecret(key),
      key_mask: maskApiKey(key),
      mp_user_id: mpUserId,
      description: null,
      active: true,
      created_at: now,
      last_used_at: null,
      revoked_at: null,
    })
    const entries: Entry[] = [
      { action: 'oauth.connected', resourceId: client, metadata: { mp_user_id: mpUserId } },
      { action: 'api_key.created', resourceId: keyId },
      ...(await more(trx, seller, keyId)),
    ]
    const signed = entries.map(({ keyId: by, ...entry }) =>
      signSuccess(deps, {
        ...entry,
        client,
        actor: { ipAddress: '127.0.0.1', keyId: by, startedAt: now },
      }),
    )
    await appendActivity(trx, signed)
    return signed
  })
  if (!written) return undefined
  notifyActivity(deps, written)
  return { client, key, mpUserId }
}

/** A store with a box and a terminal in PDV, at the provider and in the database. */
async function seedStore(
  { deps, sandbox: { context } }: TestService,
  trx: Trx,
  { client, seller, keyId }: { client: string; seller: Seller; keyId: string },
): Promise<{ entries: Entry[]; terminalId: string }> {
  const now = deps.now()
  const mpStore = addStore(context, seller, {
    name: `Sucursal ${storeId}`,
    externalId: encodeExternalId(storeId, 60),
    businessHours: {},
    location: storeLocation,
  })
  const mpPos = newPos(context, mpStore, {
    name: `Caja ${boxId}`,
    externalId: encodeExternalId(boxId, 39),
    category: null,
    fixedAmount: true,
  })
  addPos(context, mpPos)
  const terminal = pairTerminal(context, { pos_id: mpPos.id, operating_mode: 'PDV' })

  const row = { client: asClientName(client), state: 'active' as const, created_at: now }
  const id = randomUUID()
  await insertStore(trx, {
    ...row,
    id,
    external_id: storeId,
    mp_external_id: String(mpStore.externalId),
    name: mpStore.name,
    location: JSON.stringify(storeLocation),
    mp_store_id: String(mpStore.id),
    time_zone: null,
  })
  await insertPos(trx, [
    {
      ...row,
      id: randomUUID(),
      store_id: id,
      external_id: boxId,
      mp_external_id: String(mpPos.externalId),
      name: mpPos.name,
      mp_pos_id: String(mpPos.id),
    },
  ])
  deps.keyUses.note(keyId)
  const entries: Entry[] = [
    {
      action: 'store.created',
      resourceId: storeId,
      metadata: { mp_store_id: String(mpStore.id) },
      keyId,
    },
    {
      action: 'pos.created',
      resourceId: boxId,
      metadata: { mp_pos_id: String(mpPos.id), sucursal_id: storeId },
      keyId,
    },
  ]
  return { entries, terminalId: terminal.id }
}
