import { z } from 'zod'
import { createChargebacks } from './chargebacks-api.ts'
import { createClient, type ProviderClient } from './client.ts'
import { createOauth } from './oauth-api.ts'
import { MpNote, MpNumber } from './payload-fields.ts'
import { createPayments } from './payments-api.ts'
import { createOrders, createTerminals } from './point-api.ts'
import type { Provider, ProviderSettings } from './provider-types.ts'
import { createReports } from './reports-api.ts'
import { createPos, createStores } from './stores-api.ts'

export { orderIdOfPayment } from './order-payloads.ts'
export { createProviderClock, type ProviderClock } from './provider-clock.ts'
export { isAnswered, ProviderError } from './provider-error.ts'
export type * from './provider-types.ts'
export {
  asAppError,
  isRefusedForNow,
  mayBeOurOwn,
  type ProviderOperation,
  toAppError,
} from './to-app-error.ts'

/** The provider client: no database, no token lookup, no business rules. */
export function createProvider(settings: ProviderSettings): Provider {
  const client = createClient(settings)
  const cut = new AbortController()
  const cuttable = client.cuttableBy(cut.signal)
  return {
    oauth: createOauth(client, settings),
    users: createUsers(client),
    orders: createOrders(cuttable, settings.clientId),
    payments: createPayments(client),
    chargebacks: createChargebacks(client),
    reports: createReports(client),
    stores: createStores(client),
    pos: createPos(client, settings.posApi),
    terminals: createTerminals(cuttable),
    cutShort: () => cut.abort(),
    close: () => client.close(),
  }
}

const MpUser = z.object({
  id: MpNumber,
  nickname: MpNote,
  site_id: MpNote,
  tags: z.array(z.string()).nullish().catch(null),
})

function createUsers(client: ProviderClient): Provider['users'] {
  return {
    async me(token, options) {
      const user = await client.call({
        operation: 'user.read',
        method: 'GET',
        path: '/users/me',
        token,
        schema: MpUser,
        options,
      })
      return {
        id: user.id,
        nickname: user.nickname ?? null,
        siteId: user.site_id ?? null,
        isTestUser: user.tags?.includes('test_user') ?? false,
      }
    },
  }
}
