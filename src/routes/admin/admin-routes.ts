import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { asClientName } from '../../domain/client-name.ts'
import { snakeCased } from '../../domain/field-names.ts'
import {
  readClientInformation,
  readClientSummaries,
} from '../../payments/admin/client-information.ts'
import { unpinAccount } from '../../payments/connection/connected-account.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/request-context.ts'
import { findOrderPage } from '../orders/list-orders.ts'
import { OrdersResponse } from '../orders/order-schemas.ts'
import {
  AdminOrdersQuery,
  ClientParams,
  ClientResponse,
  ClientsResponse,
  UnpinResponse,
} from './admin-schemas.ts'

/** Orders of all clients. */
export const allOrderRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.get(
    '',
    {
      ...app.forList,
      config: { needs: 'administer' },
      schema: {
        operationId: 'listAllOrders',
        summary: 'Orders of all clients, newest first',
        querystring: AdminOrdersQuery,
        response: { 200: OrdersResponse },
      },
    },
    async (request) => {
      const { client, order_id } = request.query
      return findOrderPage(
        deps,
        { client: client === undefined ? undefined : asClientName(client), id: order_id },
        request.query,
        request.headers,
      )
    },
  )
}

/** The clients, with their connections and keys. */
export const clientRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.get(
    '',
    {
      ...app.forList,
      config: { needs: 'administer' },
      schema: {
        operationId: 'listClients',
        summary: 'All clients, without their tokens',
        response: { 200: ClientsResponse },
      },
    },
    async () => {
      const clients = await readClientSummaries(deps)
      return { clients: clients.map(snakeCased), total: clients.length }
    },
  )

  app.get(
    '/:clientName',
    {
      config: { needs: 'administer' },
      schema: {
        operationId: 'readClient',
        summary: 'Connection, tokens and key of a client; every look at tokens is audited',
        params: ClientParams,
        response: { 200: ClientResponse },
      },
    },
    async (request) => {
      const found = await readClientInformation(
        deps,
        request.params.clientName,
        actorOf(deps, request),
      )
      return {
        ...snakeCased(found),
        oauth: snakeCased(found.oauth),
        api_key: snakeCased(found.apiKey),
      }
    },
  )

  app.post(
    '/:clientName/unpin',
    {
      config: { needs: 'administer' },
      schema: {
        operationId: 'unpinAccount',
        summary: 'Let the next connection of a client choose its account',
        description:
          'The next connection then needs an invitation or the admin token. Keys that were made for the released account end when the client is connected on another one.',
        params: ClientParams,
        response: { 200: UnpinResponse },
      },
    },
    async (request) => {
      const { clientName } = request.params
      const { mpUserId } = await unpinAccount(deps, clientName, actorOf(deps, request))
      return { message: 'The account is released', client: clientName, mp_user_id: mpUserId }
    },
  )
}
