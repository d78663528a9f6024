import type { Db } from '../../db/database.ts'
import { asClientName } from '../../domain/client-name.ts'
import {
  connectionContext,
  createEncryption,
  type Encryption,
  type EncryptionKey,
  grantContext,
} from '../../domain/encryption.ts'
import { insertConnectionEvent } from '../../repositories/connection/connection-events.ts'
import { markUnreadable } from '../../repositories/connection/connection-queries.ts'
import {
  countEncryptedByOthers,
  deleteStatesEncryptedBy,
  type EncryptedColumn,
  type EncryptedUse,
  type EncryptedValue,
  findEncryptionKeys,
  listEncryptedColumns,
  readEncryptedBy,
  replaceEncrypted,
} from '../../repositories/encryption/encrypted-values.ts'
import { stopWithoutSecret } from '../../repositories/events/event-endpoints.ts'
import { giveUpGrant } from '../../repositories/flows/oauth-grants.ts'
import { recordSuccess } from '../audit/activity.ts'
import { openAuditKey, replaceAuditKey } from '../audit/audit-key.ts'
import { sealWaiting } from '../audit/seal-activity.ts'
import type { PaymentDeps } from '../deps.ts'
import { serviceActor } from '../request-context.ts'
import { decryptValue } from './check-encryption-keys.ts'

type RotateDeps = Pick<PaymentDeps, 'database' | 'now'>

/** Who owns values of a kind. */
type Owner = { use: EncryptedUse; owner: string }

export type Rotation = {
  /** The key with which everything is encrypted now. */
  first: string
  /** Values that were encrypted again in this run. */
  renewed: number
  /** Owners of values that were removed because their keys are lost. */
  givenUp: Owner[]
  /** Owners of values that no configured key decrypts. */
  unreadable: Owner[]
  /** Values still under other keys: other processes use them, or the values are unreadable. */
  left: { key: string; use: EncryptedUse; values: number }[]
}

const batch = 100

/**
 * Encrypts all stored values again with the first key, so that the other keys are no longer needed.
 *
 * Each value is replaced by itself, and only if it is unchanged since it was read. So processes may serve meanwhile, renewals
 * included, and an interrupted run continues where it was.
 *
 * `lost`: keys that no longer exist. Their clients must connect again. If the audit key was encrypted with one, the contents of
 * earlier entries of the audit log cannot be checked any more.
 */
export async function rotateSecrets(
  deps: RotateDeps,
  keys: readonly EncryptionKey[],
  lost: readonly string[] = [],
): Promise<Rotation> {
  const { db } = deps.database
  const encryption = createEncryption(keys)
  const first = keys[0]?.id ?? ''
  const columns = await listEncryptedColumns(db)
  const givenUp: Owner[] = []
  for (const id of lost) givenUp.push(...(await giveUp(deps, encryption, columns, id)))

  let renewed = 0
  const unreadable: Owner[] = []
  for (const column of columns) {
    for (const id of await findEncryptionKeys(db, column)) {
      if (id === first) continue
      for await (const value of valuesUnder(db, column, id)) {
        const clear = decryptValue(encryption, column, value)
        if (clear === undefined) unreadable.push({ use: column.use, owner: value.owner })
        else {
          const again = encryption.encrypt(clear, column.contextOf(value))
          if (await replaceEncrypted(db, column, value, again)) renewed += 1
        }
      }
    }
  }
  const left: Rotation['left'] = []
  for (const column of columns) {
    const counts = await countEncryptedByOthers(db, column, first)
    left.push(...counts.map((count) => ({ ...count, use: column.use })))
  }
  if (renewed + givenUp.length > 0) {
    await record(deps, encryption, first, { renewed, given_up: givenUp.length, lost })
  }
  return { first, renewed, givenUp, unreadable, left }
}

async function* valuesUnder(db: Db, column: EncryptedColumn, keyId: string) {
  for (let after = ''; ; ) {
    const values = await readEncryptedBy(db, column, keyId, { after, limit: batch })
    yield* values
    const last = values.at(-1)
    if (!last || values.length < batch) return
    after = last.row
  }
}

/** Removes what a lost key encrypted. Returns the owners. */
async function giveUp(
  deps: RotateDeps,
  encryption: Encryption,
  columns: readonly EncryptedColumn[],
  lost: string,
): Promise<Owner[]> {
  const { db } = deps.database
  const owners: Owner[] = []
  for (const column of columns) {
    if (column.table === 'oauth_states') await deleteStatesEncryptedBy(db, lost)
    for await (const value of valuesUnder(db, column, lost)) {
      const isGone = await giveUpValue(deps, encryption, column, value)
      if (isGone) owners.push({ use: column.use, owner: value.owner })
    }
  }
  return owners
}

function giveUpValue(
  { database, now }: RotateDeps,
  encryption: Encryption,
  column: EncryptedColumn,
  value: EncryptedValue,
): Promise<boolean> {
  const { db } = database
  const { row, encrypted } = value
  switch (column.table) {
    case 'oauth_connections': {
      const empty = encryption.encrypt('', connectionContext(row, 'access_token'))
      return database.transaction(async (trx) => {
        const isMarked = await markUnreadable(trx, row, { [column.column]: encrypted }, empty)
        if (isMarked) {
          const lost = { at: now(), reason: 'encryption_key_lost' }
          await insertConnectionEvent(trx, asClientName(row), 'lost', lost)
        }
        return isMarked
      })
    }
    case 'oauth_grants': {
      const empty = encryption.encrypt('', grantContext(row))
      return giveUpGrant(db, row, encrypted, { empty, at: now() })
    }
    case 'people':
      return replaceEncrypted(db, column, value, null)
    case 'event_endpoints':
      return column.column === 'secret'
        ? stopWithoutSecret(db, { id: row, secret: encrypted, now: now() })
        : replaceEncrypted(db, column, value, null)
    case 'settings':
      return replaceAuditKey(database, encryption, encrypted)
    case 'oauth_states':
      return Promise.resolve(false)
  }
}

async function record(
  { database, now }: RotateDeps,
  encryption: Encryption,
  first: string,
  metadata: Record<string, unknown>,
): Promise<void> {
  const auditKey = await openAuditKey(database, encryption, now())
  await database.transaction((trx) =>
    recordSuccess({ auditKey, now, database }, trx, {
      client: null,
      actor: serviceActor(now()),
      action: 'secrets.rotated',
      resourceId: first,
      metadata,
    }),
  )
  // No service may run that would do it, and an entry without a seal would be lost with the audit key.
  await sealWaiting({ database, auditKey })
}
