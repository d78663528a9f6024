import type { HttpServer } from '../../http/create-server.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/operations/request-context.ts'
import { listTerminals } from '../../payments/terminals/list-terminals.ts'
import { setOperatingMode } from '../../payments/terminals/operating-mode.ts'
import { providerErrors, tenantOfRequest } from '../guards.ts'
import { storesOfRequest } from '../session/confine.ts'
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
      const { sucursal_id, caja_id, limit, offset } = request.query
      const terminals = await listTerminals(deps, tenantOfRequest(request), {
        sucursalId: sucursal_id,
        cajaId: caja_id,
        stores: storesOfRequest(request),
        limit,
        offset,
      })
      return {
        terminals: terminals.map((terminal) => ({
          ...terminal,
          sucursal_id: terminal.sucursalId,
          caja_id: terminal.cajaId,
          operating_mode: terminal.operatingMode,
        })),
      }
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
      const { caja_id, operating_mode } = request.body
      const updated = await setOperatingMode(
        deps,
        tenantOfRequest(request),
        { cajaId: caja_id, operatingMode: operating_mode },
        actorOf(deps, request),
      )
      return {
        message: `The mode is ${operating_mode}; restart the device for it to take effect`,
        terminals_updated: updated,
      }
    },
  )
}
