import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { snakeCased } from '../../domain/field-names.ts'
import {
  connectionStatus,
  logout,
  refreshConnection,
} from '../../payments/connection/connected-account.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/request-context.ts'
import { providerErrors, tenantOfRequest } from '../authentication.ts'
import { ConnectionResponse, MessageResponse, RefreshResponse } from './oauth-schemas.ts'

/** The connection that a client has. */
export const connectionRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.get(
    '/status',
    {
      config: { needs: 'see', within: 'anything' },
      schema: {
        operationId: 'readConnection',
        summary: 'State of the client’s connection',
        response: { 200: ConnectionResponse },
      },
    },
    async (request) => snakeCased(await connectionStatus(deps, tenantOfRequest(request))),
  )

  app.post(
    '/refresh',
    {
      config: {
        needs: 'connect',
        within: 'all_stores',
        errors: [...providerErrors, 'CONFLICT'],
      },
      schema: {
        operationId: 'refreshConnection',
        summary: 'Renew the tokens now',
        response: { 200: RefreshResponse },
      },
    },
    async (request) => {
      const client = tenantOfRequest(request)
      const { expiresAt } = await refreshConnection(deps, client, actorOf(deps, request))
      return { message: 'The tokens were renewed', clientName: client, expiresAt: expiresAt }
    },
  )

  app.post(
    '/logout',
    {
      config: { needs: 'connect', within: 'all_stores', errors: ['OAUTH_NOT_CONNECTED'] },
      schema: {
        operationId: 'logout',
        summary: 'Delete the client’s tokens',
        description: 'This cannot be undone. The owner of the account must connect it again.',
        response: { 200: MessageResponse },
      },
    },
    async (request) => {
      await logout(deps, tenantOfRequest(request), actorOf(deps, request))
      return { message: 'The connection was removed' }
    },
  )
}
