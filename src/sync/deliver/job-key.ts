import { createHash } from 'node:crypto'

/**
 * The idempotency key of a delivery, 64 hex digits: the same for every attempt of one content, also after a crash.
 * Written as JSON before it is hashed, so that no two deliveries share one by where their parts begin and end.
 */
export function jobKey(delivery: {
  flow: string
  destination: string
  pk: string
  hash: string
  kind: 'upsert' | 'delete'
}): string {
  const { flow, destination, pk, hash, kind } = delivery
  const text = JSON.stringify([flow, destination, pk, hash, kind])
  return createHash('sha256').update(text).digest('hex')
}
