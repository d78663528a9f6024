import { randomBytes } from 'node:crypto'
import { type Encryption, endpointContext } from '../../domain/encryption.ts'
import { secretPrefix, webhookKeyOf } from '../../outbound/standard-webhook.ts'
import type { EndpointRow } from '../../repositories/events/event-endpoints.ts'

/** The standard asks for 24 to 64. */
const secretBytes = 32

/** A new secret of an endpoint, in clear and as it is stored. */
export function newSecret(encryption: Encryption, id: string): { clear: string; stored: string } {
  const clear = `${secretPrefix}${randomBytes(secretBytes).toString('base64')}`
  return { clear, stored: encryption.encrypt(clear, endpointContext(id)) }
}

type Secrets = Pick<EndpointRow, 'id' | 'secret' | 'former_secret' | 'former_until'>

/** The keys that sign what is sent now, the newest first. */
export function signingKeys(encryption: Encryption, endpoint: Secrets, now: Date): Buffer[] {
  const { secret, former_secret: former, former_until: until } = endpoint
  const valid = [secret, until !== null && until > now ? former : null]
  return valid
    .filter((stored) => stored !== null)
    .map((stored) => webhookKeyOf(encryption.decrypt(stored, endpointContext(endpoint.id))))
    .filter((key) => key !== 'wrong')
}
