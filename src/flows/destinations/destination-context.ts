import type { Dispatcher } from 'undici'
import type { Flow } from '../definition/schema.ts'
import type { GrantKeeper } from '../oauth/refresh-token-grants.ts'
import type { PaymentsPort } from './payments-port.ts'

/** What a destination gets from the flow runtime. */
export type DestinationContext = {
  flow: Pick<Flow, 'deletes' | 'window'> & Partial<Pick<Flow, 'name'>>
  /** From createGuardedAgent with the flow's allowPrivateNetwork. The caller closes it. */
  agent: Dispatcher
  payments: PaymentsPort
  now: () => Date
  /** For destinations whose access uses refresh tokens. */
  grants?: Pick<GrantKeeper, 'tokens'> | undefined
}
