import { createHash } from 'node:crypto'

/**
 * The key of a delivery, 64 hex digits, of which the idempotency key of each of its requests is made (see requestKey): the same for every attempt of one change, also after a crash, and another
 * for the next change of the item, even back to what it was. A key per content would have a receiver that remembers keys
 * take the second 100 of 100, 90, 100 for done. The content is in it nevertheless: a database that is restored from a
 * backup counts changes anew.
 *
 * Written as JSON before it is hashed, so that no two deliveries share one by where their parts begin and end.
 */
export function jobKey(delivery: {
  flow: string
  destination: string
  /** What the destination is; see definition/identity.ts. */
  identity: string
  pk: string
  change: number
  kind: 'upsert' | 'delete'
  hash: string
}): string {
  const { flow, destination, identity, pk, change, kind, hash } = delivery
  const text = JSON.stringify([flow, destination, identity, pk, change, kind, hash])
  return createHash('sha256').update(text).digest('hex')
}
