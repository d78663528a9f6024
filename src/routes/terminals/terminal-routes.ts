import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { camelCased, snakeCased } from '../../domain/field-names.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/request-context.ts'
import { listTerminals } from '../../payments/terminals/list-terminals.ts'
import { setOperatingMode } from '../../payments/terminals/operating-mode.ts'
import { providerErrors, tenantOfRequest } from '../authentication.ts'
import { storesOfRequest } from '../store-access.ts'
import {
  OperatingModeBody,
  OperatingModeResponse,
  TerminalsQuery,
  TerminalsResponse,
} from './terminal-schemas.ts'

export const terminalRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.get(
    '',
    {
      ...app.forList,
      config: { needs: 'see', within: 'list', errors: providerErrors },
      schema: {
        operationId: 'listTerminals',
        summary: 'Terminals of the client with the ERP’s ids',
        querystring: TerminalsQuery,
        response: { 200: TerminalsResponse },
      },
    },
    async (request) => {
      const terminals = await listTerminals(deps, tenantOfRequest(request), {
        ...camelCased(request.query),
        stores: storesOfRequest(request),
      })
      return { terminals: terminals.map(snakeCased) }
    },
  )

  app.patch(
    '/operating-mode',
    {
      config: {
        needs: 'switch_terminals',
        within: 'box',
        errors: [...providerErrors, 'NOT_FOUND', 'TERMINAL_NOT_FOUND', 'ONE_PDV_PER_BOX'],
      },
      schema: {
        operationId: 'setOperatingMode',
        summary: 'Switch all terminals of a box',
        body: OperatingModeBody,
        response: { 200: OperatingModeResponse },
      },
    },
    async (request) => {
      const updated = await setOperatingMode(
        deps,
        tenantOfRequest(request),
        camelCased(request.body),
        actorOf(deps, request),
      )
      return {
        message: `The mode is ${request.body.operating_mode}; restart the device for it to take effect`,
        terminals_updated: updated,
      }
    },
  )
}
