import type { Dispatcher } from 'undici'
import type { Flow } from '../definition/schema.ts'
import type { OwnDatabase } from '../net/postgres-connection.ts'
import type { RefreshTokens } from '../oauth/access-tokens.ts'
import type { PaymentsPort } from './payments-port.ts'

/** What a destination gets from the flow runtime. */
export type DestinationContext = {
  flow: Pick<Flow, 'deletes' | 'window' | 'reach'> & Partial<Pick<Flow, 'name'>>
  /** From createGuardedAgent with the flow's allowPrivateNetwork. The caller closes it. */
  agent: Dispatcher
  payments: PaymentsPort
  now: () => Date
  /** For SQL destinations: the service's own database, which no flow may write. */
  ownDatabase?: OwnDatabase | undefined
  /** For destinations whose access uses refresh tokens. */
  grants?: RefreshTokens | undefined
}
