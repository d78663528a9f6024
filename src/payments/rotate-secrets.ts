import type { Database, Db } from '../db/database.ts'
import { createSealer, type EncryptionKey, SealedError, type Sealer } from '../domain/sealed.ts'
import { markUnreadable } from '../repositories/oauth.ts'
import {
  deleteStatesSealedBy,
  findSealingKeys,
  findSigningKeys,
  hasTables,
  keepSigningKey,
  readKeptSigningKeys,
  readSealedBy,
  replaceSealed,
  type SealedColumn,
  type SealedValue,
  sealedColumns,
} from '../repositories/sealed-values.ts'
import { recordSuccess } from './activity.ts'
import { serviceActor } from './deps.ts'
import { sealSigningKey, signingKeyContext } from './kept-signing-keys.ts'
import { sealWaiting, takeOverHead } from './seal-activity.ts'
import { sealContext } from './token-keeper.ts'

export type RotateDeps = {
  database: Database
  now: () => Date
  sleep: (ms: number) => Promise<void>
}

export type Rotation = {
  /** The key under which everything stands now. */
  first: string
  /** Values that were encrypted anew in this run. */
  renewed: number
  /** Connections that were given up with their lost keys. */
  givenUp: number
  /** Clients whose values no configured key opens. */
  unreadable: string[]
  /** Keys under which values still stand: other processes encrypt with them, or there are unreadable values. */
  stillUsed: string[]
}

const batch = 100
/** A renewal of tokens that was under way may still store values under its old key. */
const rounds = 3
const pauseMs = 1_000

/**
 * Encrypts everything that is stored anew under the first of the keys, and keeps what verifies the audit log's older
 * entries under it too, so that the other keys are no longer needed. Each value is exchanged by itself, and only if it is
 * still the one that was read: processes may serve meanwhile, renew tokens included, and a run that was cut goes on where
 * it was. `lost`: keys that nobody has any more; their clients have to connect again, their entries of the audit log
 * cannot be verified.
 */
export async function rotateSecrets(
  deps: RotateDeps,
  keys: readonly EncryptionKey[],
  lost: readonly string[] = [],
): Promise<Rotation> {
  const { db } = deps.database
  const sealer = createSealer(keys)
  const first = sealer.signingKey().id
  if (!(await hasTables(db))) {
    return { first, renewed: 0, givenUp: 0, unreadable: [], stillUsed: [] }
  }
  const givenUp = await giveUp(deps, sealer, lost)
  await keepSigningKeys(deps, sealer, keys)
  await takeOverHead({ database: deps.database, sealer }, lost)
  // Whoever has the new key alone takes no entry that an old one signed.
  await sealWaiting({ database: deps.database, sealer })
  let renewed = 0
  let unreadable = new Set<string>()
  let stillUsed: string[] = []
  for (let round = 1; round <= rounds; round += 1) {
    unreadable = new Set()
    for (const column of sealedColumns) {
      for (const id of (await findSealingKeys(db, column)).filter((key) => key !== first)) {
        renewed += await renewColumn(db, sealer, column, id, unreadable)
      }
    }
    stillUsed = await usedBeside(db, first)
    if (stillUsed.length === 0 || unreadable.size > 0 || round === rounds) break
    await deps.sleep(pauseMs)
  }
  if (renewed > 0 || givenUp > 0) await record(deps, sealer, { renewed, givenUp, lost: [...lost] })
  return { first, renewed, givenUp, unreadable: [...unreadable].toSorted(), stillUsed }
}

async function renewColumn(
  db: Db,
  sealer: Sealer,
  column: SealedColumn,
  keyId: string,
  unreadable: Set<string>,
): Promise<number> {
  let renewed = 0
  for (let after = ''; ; ) {
    const values = await readSealedBy(db, column, keyId, { after, limit: batch })
    for (const value of values) {
      const again = sealAnew(sealer, column, value)
      if (again === undefined) unreadable.add(value.client)
      else if (await replaceSealed(db, column, value, again)) renewed += 1
    }
    const last = values.at(-1)
    if (!last || values.length < batch) return renewed
    after = last.row
  }
}

function sealAnew(
  sealer: Sealer,
  { column }: SealedColumn,
  { client, sealed }: SealedValue,
): string | undefined {
  const context = sealContext(client, column)
  try {
    return sealer.seal(sealer.open(sealed, context), context)
  } catch (error) {
    if (error instanceof SealedError) return undefined
    throw error
  }
}

async function usedBeside(db: Db, first: string): Promise<string[]> {
  const used = new Set<string>()
  for (const column of sealedColumns) {
    for (const id of await findSealingKeys(db, column)) if (id !== first) used.add(id)
  }
  return [...used].toSorted()
}

/** Before anything else: whoever sees no value left under a key takes it away, and the log must verify then too. */
async function keepSigningKeys(
  { database, now }: RotateDeps,
  sealer: Sealer,
  keys: readonly EncryptionKey[],
): Promise<void> {
  const first = sealer.signingKey().id
  const kept = await readKeptSigningKeys(database.db)
  const wanted = new Map<string, string>()
  for (const { id } of keys) {
    const key = sealer.signingKeyById(id)
    if (id !== first && key) wanted.set(id, sealSigningKey(sealer, id, key))
  }
  for (const [id, sealed] of kept) {
    if (sealed === '' || sealed.split('.')[1] === first) wanted.delete(id)
    else if (!wanted.has(id)) {
      const key = Buffer.from(sealer.open(sealed, signingKeyContext(id)), 'base64')
      wanted.set(id, sealSigningKey(sealer, id, key))
    }
  }
  for (const [id, sealed] of wanted) {
    await keepSigningKey(database.db, id, sealed, kept.get(id), now())
  }
}

async function giveUp(deps: RotateDeps, sealer: Sealer, lost: readonly string[]): Promise<number> {
  const { db } = deps.database
  const clients = new Set<string>()
  const kept = await readKeptSigningKeys(db)
  const signing = await findSigningKeys(db)
  for (const id of lost) {
    for (const column of sealedColumns) {
      if (column.table === 'oauth_states') {
        await deleteStatesSealedBy(db, id)
        continue
      }
      for (;;) {
        const values = await readSealedBy(db, column, id, { limit: batch })
        for (const { client, sealed } of values) {
          const empty = sealer.seal('', sealContext(client, 'access_token'))
          if (await markUnreadable(db, client, { [column.column]: sealed }, empty)) {
            clients.add(client)
          }
        }
        if (values.length === 0) break
      }
    }
    if (signing.includes(id) && !kept.has(id))
      await keepSigningKey(db, id, '', undefined, deps.now())
    for (const [name, sealed] of kept) {
      if (sealed.split('.')[1] === id) await keepSigningKey(db, name, '', sealed, deps.now())
    }
  }
  return clients.size
}

/** Also anchors what older keys signed: the entry is signed with the first key and holds the hash of those before it. */
async function record(
  { database, now }: RotateDeps,
  sealer: Sealer,
  { renewed, givenUp, lost }: { renewed: number; givenUp: number; lost: string[] },
): Promise<void> {
  await database.transaction((trx) =>
    recordSuccess({ sealer, now, database }, trx, {
      client: null,
      actor: serviceActor(now()),
      action: 'secrets.rotated',
      resourceType: 'secrets',
      resourceId: sealer.signingKey().id,
      metadata: { renewed, given_up: givenUp, lost },
    }),
  )
}
