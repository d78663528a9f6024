import { hash } from 'node:crypto'

/**
 * The identity of a request, equal for all its repetitions, as 64 hex digits. It depends only on the parts, so all
 * machines compute the same.
 */
export function requestKey(...parts: readonly (string | number)[]): string {
  return hash('sha256', JSON.stringify(parts))
}

/**
 * The provider's idempotency key for attempt `number` (from 1) of a request, as a UUID (version 8, RFC 9562). It
 * follows from the request. So a service with a restored database sends the same key again, and the provider answers
 * with what it made before.
 */
export function providerKey(request: string, number: number): string {
  const bytes = hash('sha256', `${request} ${number}`, 'buffer').subarray(0, 16)
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x80
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    hex.slice(12, 16),
    hex.slice(16, 20),
    hex.slice(20),
  ].join('-')
}

/** What makes requests without an Idempotency-Key the same sale. */
export function saleKey(
  client: string,
  mpUserId: number,
  sale: { cajaId: string; externalReference: string; amountCents: number },
): string {
  const { cajaId, externalReference, amountCents } = sale
  const reference = externalReference.normalize('NFC')
  return requestKey('sale', client, mpUserId, cajaId, reference, amountCents)
}
