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
  type EncryptedUse,
  type EncryptedValue,
  findEncryptionKeys,
  listEncryptedColumns,
  readEncryptedBy,
} from '../../repositories/encryption/encrypted-values.ts'

/** A key that the database needs and that is missing, or is another key with the same id. */
type KeyTrouble = {
  id: string
  kind: 'missing' | 'wrong'
  /** What it was used for. */
  uses: EncryptedUse[]
}

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
  const encryption = keys.length > 0 ? createEncryption(keys) : undefined
  const troubles = new Map<string, KeyTrouble>()
  for (const column of await listEncryptedColumns(db)) {
    for (const id of await findEncryptionKeys(db, column)) {
      const isThere = keys.some((key) => key.id === id)
      const values = isThere ? await readEncryptedBy(db, column, id, { limit: samples }) : []
      const opens = (value: EncryptedValue) =>
        encryption && decryptValue(encryption, column, value) !== undefined
      if (isThere && (values.length === 0 || values.some(opens))) continue
      const trouble = troubles.get(id) ?? { id, kind: isThere ? 'wrong' : 'missing', uses: [] }
      if (!trouble.uses.includes(column.use)) trouble.uses.push(column.use)
      troubles.set(id, trouble)
    }
  }
  return [...troubles.values()]
}

/** A stored value in clear; undefined when none of the keys decrypts it at its place. */
export function decryptValue(
  encryption: Encryption,
  column: EncryptedColumn,
  value: EncryptedValue,
): string | undefined {
  try {
    return encryption.decrypt(value.encrypted, column.contextOf(value))
  } catch (error) {
    if (error instanceof DecryptionError) return undefined
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
        'the others open what they encrypted; a new key goes to the front under an id that was never used.',
        'Only when a key is lost for good: npm run secrets:rotate -- --lost=ID. Its clients must connect again then.',
      ].join('\n'),
    )
    this.name = 'EncryptionKeysError'
  }
}
