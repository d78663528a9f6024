import type { Db, Trx } from '../../db/database.ts'
import type { Who } from '../../domain/who.ts'
import { findKeyById, listKeysById } from '../../repositories/api-keys/api-key-queries.ts'
import type { Actor } from '../deps.ts'

/** What an entry of the audit log says of who it was. */
type WrittenEntry = { ip_address: string | null; metadata: Record<string, unknown> }

/** Answers who made each entry. Keys are looked up once, however many entries there are. */
export async function createAuthorOf(
  db: Db,
  entries: readonly WrittenEntry[],
): Promise<(one: WrittenEntry) => Who> {
  const ids = new Set(entries.flatMap(({ metadata: { key_id: id } }) => (isText(id) ? [id] : [])))
  const keys = new Map(
    (await listKeysById(db, [...ids])).map((key) => [key.id, key.description ?? key.key_mask]),
  )
  return ({ ip_address: address, metadata }) => {
    const { person, key_id: keyId, by } = metadata
    if (isText(person)) return { kind: 'person', name: person }
    if (isText(keyId)) return { kind: 'key', name: keys.get(keyId) ?? null }
    if (address === null || isText(by)) return { kind: 'service', name: null }
    return { kind: 'administrator', name: null }
  }
}

/** Who makes a request. */
export async function whoIs(
  db: Db | Trx,
  { person, keyId }: Pick<Actor, 'person' | 'keyId'>,
): Promise<Who> {
  if (person) return { kind: 'person', name: person.name }
  if (keyId === undefined) return { kind: 'administrator', name: null }
  const key = await findKeyById(db, keyId)
  return { kind: 'key', name: key ? (key.description ?? key.key_mask) : null }
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}
