import { camelCased, snakeCased } from '../../domain/field-names.ts'
import type { HttpServer } from '../../http/create-server.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/operations/request-context.ts'
import { listTerminals } from '../../payments/terminals/list-terminals.ts'
import { setOperatingMode } from '../../payments/terminals/operating-mode.ts'
import { providerErrors, tenantOfRequest } from '../authentication.ts'
import { storesOfRequest } from '../session/store-access.ts'
import {
  OperatingModeBody,
  OperatingModeResponse,
  TerminalsQuery,
  TerminalsResponse,
} from './terminal-schemas.ts'

export function addTerminalRoutes(app: HttpServer, deps: PaymentDeps): void {
  app.get(
    '/terminals',
    {
      config: { access: 'client', errors: providerErrors, compressed: true },
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
    '/terminals/operating-mode',
    {
      config: {
        access: 'client',
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
