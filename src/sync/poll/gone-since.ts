import type { Trx } from '../../db/database.ts'
import { findDeletedSince } from '../../repositories/flows/deliveries.ts'
import type { Flow } from '../definition/schema.ts'

/**
 * Which of these items, of which nothing is stored, were deleted because of a read that began after `read` did, as when the
 * ERP says meanwhile that they are gone: what an older read shows of them must not bring them back.
 */
export async function goneSince(
  trx: Trx,
  { name: flow, deletes, destinations }: Pick<Flow, 'name' | 'deletes' | 'destinations'>,
  pks: readonly string[],
  read: number,
): Promise<Set<string>> {
  const [first] = destinations
  if (deletes.mode !== 'delete' || !first) return new Set()
  return findDeletedSince(trx, { flow, destination: first.name }, pks, read)
}
