import type { Db } from '../../db/database.ts'
import {
  createEncryption,
  DecryptionError,
  type Encryption,
  type EncryptionKey,
} from '../../domain/encryption.ts'
import { OperatorError } from '../../errors/operator-error.ts'
import {
  type EncryptedColumn,
  type EncryptedValue,
  findEncryptionKeys,
  findHeadKey,
  findSigningKeys,
  grantContext,
  hasTables,
  listEncryptedColumns,
  readEncryptedBy,
  readEntriesSignedBy,
  readKeptSigningKeys,
  totpContext,
} from '../../repositories/encryption/encrypted-values.ts'
import { isSignedWith } from '../audit/activity.ts'
import { openKeptSigningKeys, signingKeyContext } from '../audit/kept-signing-keys.ts'
import { connectionContext } from '../connection/oauth-tokens.ts'

/** A key that the database needs and that is missing, or is another key with the same id. */
type KeyTrouble = {
  id: string
  kind: 'missing' | 'wrong'
  /** What it was used for. */
  uses: KeyUse[]
}
export type KeyUse =
  | 'tokens of clients'
  | 'logins under way'
  | 'tokens of destinations of flows'
  | 'codes of people'
  | 'the audit log'

const uses = {
  oauth_connections: 'tokens of clients',
  oauth_states: 'logins under way',
  oauth_grants: 'tokens of destinations of flows',
  people: 'codes of people',
} as const satisfies Record<EncryptedColumn['table'], KeyUse>

/** One value that cannot be decrypted may be damaged; when none of these can, the key is another one. */
const samples = 10

/**
 * Checks whether these keys decrypt what is stored, with a few short queries per key, however much there is. It writes nothing,
 * and may run before the migrations. An empty result means that nothing is wrong.
 */
export async function checkEncryptionKeys(
  db: Db,
  keys: readonly EncryptionKey[],
): Promise<KeyTrouble[]> {
  if (!(await hasTables(db))) return []
  const encryption = keys.length > 0 ? createEncryption(keys) : undefined
  const troubles = new Map<string, KeyTrouble>()
  const note = (id: string, kind: KeyTrouble['kind'], use: KeyUse) => {
    const trouble = troubles.get(id) ?? { id, kind, uses: [] }
    if (!trouble.uses.includes(use)) trouble.uses.push(use)
    troubles.set(id, trouble)
  }

  const proven = new Set<string>()
  for (const column of await listEncryptedColumns(db)) {
    const use = uses[column.table]
    for (const id of await findEncryptionKeys(db, column)) {
      if (encryption?.signingKeyById(id) === undefined) {
        note(id, 'missing', use)
        continue
      }
      const values = await readEncryptedBy(db, column, id, { limit: samples })
      const opens = (value: EncryptedValue) =>
        canOpen(encryption, value.encrypted, encryptionContext(column, value))
      if (values.some(opens)) proven.add(id)
      else if (values.length > 0) note(id, 'wrong', use)
    }
  }

  const kept = await readKeptSigningKeys(db)
  for (const [id, encrypted] of kept) {
    if (encrypted === '') continue
    const keyId = encrypted.split('.')[1] ?? ''
    if (encryption?.signingKeyById(keyId) === undefined) note(keyId, 'missing', 'the audit log')
    else if (!canOpen(encryption, encrypted, signingKeyContext(id)))
      note(keyId, 'wrong', 'the audit log')
  }
  const keptKeys = encryption && (await openKeptSigningKeys(db, encryption))
  for (const id of await findSigningKeys(db)) {
    const key = encryption?.signingKeyById(id)
    const keptKey = keptKeys?.get(id)
    if (key === undefined) {
      if (!kept.has(id)) note(id, 'missing', 'the audit log')
    } else if (keptKey) {
      if (!keptKey.equals(key)) note(id, 'wrong', 'the audit log')
    } else if (!proven.has(id)) {
      const entries = await readEntriesSignedBy(db, id, samples)
      // None: all that it signed is archived.
      if (entries.length > 0 && !entries.some((entry) => isSignedWith(key, entry)))
        note(id, 'wrong', 'the audit log')
    }
  }
  // A stored signing key is not enough: the end of the log is signed with a key in use.
  const headKey = await findHeadKey(db)
  if (headKey !== undefined && encryption?.signingKeyById(headKey) === undefined) {
    note(headKey, 'missing', 'the audit log')
  }
  return [...troubles.values()]
}

function canOpen(encryption: Encryption, encrypted: string, context: string): boolean {
  try {
    encryption.decrypt(encrypted, context)
    return true
  } catch (error) {
    if (error instanceof DecryptionError) return false
    throw error
  }
}

/** The keys of a process. */
export type KeysAtHand = {
  keys: readonly EncryptionKey[]
  /** Where they came from, as text for the operator. */
  source: string
  /** Ids of keys that no longer exist anywhere. */
  lost?: readonly string[]
}

/**
 * Like checkEncryptionKeys, but throws.
 *
 * @throws EncryptionKeysError for what it finds, without the lost keys
 */
export async function requireFittingKeys(
  db: Db,
  { keys, source, lost = [] }: KeysAtHand,
): Promise<void> {
  const troubles = (await checkEncryptionKeys(db, keys)).filter(({ id }) => !lost.includes(id))
  if (troubles.length > 0) throw new EncryptionKeysError(troubles, source)
}

/** The keys do not fit the database. `message` names the keys and what the operator must do. Nothing was changed. */
export class EncryptionKeysError extends OperatorError {
  /** @param source where the keys came from: a variable or a file. */
  constructor(troubles: readonly KeyTrouble[], source: string) {
    const lines = troubles.map(({ id, kind, uses }) => {
      const what = kind === 'missing' ? 'is missing' : 'has other bytes than it had'
      return `  key ${id} ${what}; needed for: ${uses.join(', ')}`
    })
    super(
      [
        `The encryption keys (from ${source}) do not fit this database. Nothing was changed.`,
        ...lines,
        'Put these keys back as id:base64 from your backup of the secrets and start again. The first key of the list encrypts,',
        'the others open what they sealed; a new key goes to the front under an id that was never used.',
        'Only when a key is lost for good: npm run secrets:rotate -- --lost=ID. Its clients must connect again then.',
      ].join('\n'),
    )
    this.name = 'EncryptionKeysError'
  }
}

/** The context that an encrypted value is bound to. */
export function encryptionContext(
  { table, column }: EncryptedColumn,
  { row, owner }: Pick<EncryptedValue, 'row' | 'owner'>,
): string {
  if (table === 'people' || column === 'totp_secret') return totpContext(row)
  return table === 'oauth_grants' ? grantContext(row) : connectionContext(owner, column)
}
