import type { ClientName } from '../domain/client-name.ts'
import type { Person } from '../domain/permissions.ts'

/**
 * Whom a token or a session authenticates. `person`: who signed in with a name and a password, and what he may do decides
 * `src/domain/permissions.ts`; an administrator of the whole service has the type `admin`, a flow operator the type `operator`.
 */
export type Principal = { sessionId?: string; person?: Person } & (
  | { type: 'admin' }
  | { type: 'client'; client: ClientName; keyId?: string }
  | { type: 'operator' }
)

/** Whom a token of the header authenticates. */
export type TokenPrincipal =
  | { type: 'admin' }
  | { type: 'client'; client: ClientName; keyId: string }
