import type { Db } from '../../db/database.ts'
import {
  createEncryption,
  DecryptionError,
  type Encryption,
  type EncryptionKey,
} from '../../domain/encryption.ts'
import { markUnreadable } from '../../repositories/connection/connection-queries.ts'
import {
  deleteStatesEncryptedBy,
  type EncryptedColumn,
  type EncryptedValue,
  findEncryptionKeys,
  findSigningKeys,
  giveUpTotp,
  grantContext,
  hasTables,
  keepSigningKey,
  listEncryptedColumns,
  readEncryptedBy,
  readKeptSigningKeys,
  replaceEncrypted,
} from '../../repositories/encryption/encrypted-values.ts'
import { giveUpGrant } from '../../repositories/flows/oauth-grants.ts'
import { recordSuccess } from '../audit/activity.ts'
import { decryptSigningKey, encryptSigningKey } from '../audit/kept-signing-keys.ts'
import { sealWaiting, signHeadAgain } from '../audit/seal-activity.ts'
import { connectionContext } from '../connection/oauth-tokens.ts'
import type { PaymentDeps } from '../deps.ts'
import { serviceActor } from '../operations/request-context.ts'
import { encryptionContext } from './check-encryption-keys.ts'

type RotateDeps = Pick<PaymentDeps, 'database' | 'now'> & {
  sleep: (ms: number) => Promise<void>
}

/** Names of clients, of flows with their destinations, and of people. */
type Owners<Names = string[]> = Record<'clients' | 'flows' | 'people', Names>

export type Rotation = {
  /** The key with which everything is encrypted now. */
  first: string
  /** Values that were encrypted again in this run. */
  renewed: number
  /** Owners of values that were removed because their keys are lost. */
  givenUp: Owners
  /** Owners of values that no configured key decrypts. */
  unreadable: Owners
  /** Keys that still encrypt stored values: other processes use them, or some values are unreadable. */
  stillUsed: string[]
}

const batch = 100
/** A token renewal that was under way may still store values under its old key. */
const rounds = 3
const pauseMs = 1_000

/**
 * Encrypts all stored values again with the first key, so that the other keys are no longer needed. What verifies older entries
 * of the audit log is encrypted with it too.
 *
 * Each value is replaced by itself, and only if it is unchanged since it was read. So processes may serve meanwhile, renewals
 * included, and an interrupted run continues where it was.
 *
 * `lost`: keys that no longer exist. Their clients must connect again, and their entries of the audit log cannot be verified.
 */
export async function rotateSecrets(
  deps: RotateDeps,
  keys: readonly EncryptionKey[],
  lost: readonly string[] = [],
): Promise<Rotation> {
  const { db } = deps.database
  const encryption = createEncryption(keys)
  const first = encryption.signingKey().id
  if (!(await hasTables(db))) {
    const [givenUp, unreadable] = [sorted(nobodys()), sorted(nobodys())]
    return { first, renewed: 0, givenUp, unreadable, stillUsed: [] }
  }
  const columns = await listEncryptedColumns(db)
  const givenUp = await giveUp(deps, encryption, columns, lost)
  await keepSigningKeys(deps, encryption, keys)
  await signHeadAgain({ database: deps.database, encryption }, lost)
  // A process that has only the new key accepts no entry that an old key signed.
  await sealWaiting({ database: deps.database, encryption })
  let renewed = 0
  let unreadable = nobodys()
  let stillUsed: string[] = []
  for (let round = 1; round <= rounds; round += 1) {
    unreadable = nobodys()
    for (const column of columns) {
      for (const id of (await findEncryptionKeys(db, column)).filter((key) => key !== first)) {
        renewed += await renewColumn(db, encryption, column, id, unreadable)
      }
    }
    stillUsed = await usedBeside(db, columns, first)
    const isStuck = Object.values(unreadable).some(({ size }) => size > 0)
    if (stillUsed.length === 0 || isStuck || round === rounds) break
    await deps.sleep(pauseMs)
  }
  const all = Object.values(givenUp).reduce((sum, { size }) => sum + size, 0)
  if (renewed + all > 0) {
    await record(deps, encryption, { renewed, givenUp: all, lost: [...lost] })
  }
  return { first, renewed, givenUp: sorted(givenUp), unreadable: sorted(unreadable), stillUsed }
}

type OwnerSets = Owners<Set<string>>

function nobodys(): OwnerSets {
  return { clients: new Set(), flows: new Set(), people: new Set() }
}

function sorted({ clients, flows, people }: OwnerSets): Owners {
  return {
    clients: [...clients].toSorted(),
    flows: [...flows].toSorted(),
    people: [...people].toSorted(),
  }
}

async function renewColumn(
  db: Db,
  encryption: Encryption,
  column: EncryptedColumn,
  keyId: string,
  unreadable: OwnerSets,
): Promise<number> {
  let renewed = 0
  for (let after = ''; ; ) {
    const values = await readEncryptedBy(db, column, keyId, { after, limit: batch })
    for (const value of values) {
      const again = encryptAgain(encryption, column, value)
      if (again === undefined) ownersOf(column, unreadable).add(value.owner)
      else if (await replaceEncrypted(db, column, value, again)) renewed += 1
    }
    const last = values.at(-1)
    if (!last || values.length < batch) return renewed
    after = last.row
  }
}

function ownersOf({ table }: EncryptedColumn, { clients, flows, people }: OwnerSets): Set<string> {
  if (table === 'people') return people
  return table === 'oauth_grants' ? flows : clients
}

function encryptAgain(
  encryption: Encryption,
  column: EncryptedColumn,
  value: EncryptedValue,
): string | undefined {
  const context = encryptionContext(column, value)
  try {
    return encryption.encrypt(encryption.decrypt(value.encrypted, context), context)
  } catch (error) {
    if (error instanceof DecryptionError) return undefined
    throw error
  }
}

async function usedBeside(
  db: Db,
  columns: readonly EncryptedColumn[],
  first: string,
): Promise<string[]> {
  const used = new Set<string>()
  for (const column of columns) {
    for (const id of await findEncryptionKeys(db, column)) if (id !== first) used.add(id)
  }
  return [...used].toSorted()
}

/** Runs first: the operator removes a key once no value uses it, and the log must be verifiable then, too. */
async function keepSigningKeys(
  { database, now }: RotateDeps,
  encryption: Encryption,
  keys: readonly EncryptionKey[],
): Promise<void> {
  const first = encryption.signingKey().id
  const kept = await readKeptSigningKeys(database.db)
  const wanted = new Map<string, string>()
  for (const { id } of keys) {
    const key = encryption.signingKeyById(id)
    if (id !== first && key) wanted.set(id, encryptSigningKey(encryption, id, key))
  }
  for (const [id, encrypted] of kept) {
    if (encrypted === '' || encrypted.split('.')[1] === first) wanted.delete(id)
    else if (!wanted.has(id)) {
      wanted.set(
        id,
        encryptSigningKey(encryption, id, decryptSigningKey(encryption, id, encrypted)),
      )
    }
  }
  for (const [id, encrypted] of wanted) {
    await keepSigningKey(database.db, id, encrypted, kept.get(id), now())
  }
}

async function giveUp(
  deps: RotateDeps,
  encryption: Encryption,
  columns: readonly EncryptedColumn[],
  lost: readonly string[],
): Promise<OwnerSets> {
  const { db } = deps.database
  const givenUp = nobodys()
  const kept = await readKeptSigningKeys(db)
  const signing = await findSigningKeys(db)
  for (const id of lost) {
    for (const column of columns) {
      if (column.table === 'oauth_states') {
        await deleteStatesEncryptedBy(db, id)
        continue
      }
      for (;;) {
        const values = await readEncryptedBy(db, column, id, { limit: batch })
        for (const value of values) {
          if (await giveUpOne(deps, encryption, column, value)) {
            ownersOf(column, givenUp).add(value.owner)
          }
        }
        if (values.length === 0) break
      }
    }
    if (signing.includes(id) && !kept.has(id))
      await keepSigningKey(db, id, '', undefined, deps.now())
    for (const [name, encrypted] of kept) {
      if (encrypted.split('.')[1] === id) await keepSigningKey(db, name, '', encrypted, deps.now())
    }
  }
  return givenUp
}

async function giveUpOne(
  { database: { db }, now }: RotateDeps,
  encryption: Encryption,
  { table, column }: EncryptedColumn,
  { row, encrypted }: EncryptedValue,
): Promise<boolean> {
  if (table === 'oauth_grants') {
    const empty = encryption.encrypt('', grantContext(row))
    return giveUpGrant(db, row, encrypted, { empty, at: now() })
  }
  if (table === 'people') return giveUpTotp(db, row, encrypted)
  const empty = encryption.encrypt('', connectionContext(row, 'access_token'))
  return markUnreadable(db, row, { [column]: encrypted }, empty)
}

/** It also anchors what older keys signed: the entry is signed with the first key and contains the hash of those before it. */
async function record(
  { database, now }: RotateDeps,
  encryption: Encryption,
  { renewed, givenUp, lost }: { renewed: number; givenUp: number; lost: string[] },
): Promise<void> {
  await database.transaction((trx) =>
    recordSuccess({ encryption, now, database }, trx, {
      client: null,
      actor: serviceActor(now()),
      action: 'secrets.rotated',
      resourceId: encryption.signingKey().id,
      metadata: { renewed, given_up: givenUp, lost },
    }),
  )
}
