import { access } from './access.ts'
import { amounts } from './amounts.ts'
import { audit } from './audit.ts'
import { deliveries } from './deliveries.ts'
import { events } from './events.ts'
import { leases } from './leases.ts'
import { logins } from './logins.ts'
import type { Mistake } from './mistake.ts'
import { orders } from './orders.ts'
import { polls } from './polls.ts'
import { refunds } from './refunds.ts'
import { secrets } from './secrets.ts'
import { sending } from './sending.ts'

/** All that are planted, one at a time. */
export const mistakes: readonly Mistake[] = [
  secrets,
  access,
  logins,
  audit,
  sending,
  orders,
  refunds,
  amounts,
  leases,
  polls,
  deliveries,
  events,
].flat()
