import { z } from 'zod'
import { operatingModes } from '../../domain/order.ts'
import { ClientQuery, ErpId, queryLimit, queryOffset } from '../field-schemas.ts'

export const TerminalsQuery = z.object({
  ...ClientQuery,
  sucursal_id: ErpId.optional().describe('ERP store id'),
  caja_id: ErpId.optional().describe('ERP box id').meta({ example: 'CAJA-1' }),
  limit: queryLimit(50, 50),
  offset: queryOffset(1_000_000),
})

export const TerminalsResponse = z
  .object({
    terminals: z.array(
      z
        .object({
          id: z.string(),
          sucursal_id: z.string().nullable().describe('null for a store not known here'),
          caja_id: z.string().nullable().describe('null for a box not known here'),
          operating_mode: z.enum(operatingModes),
        })
        .meta({
          id: 'Terminal',
          example: {
            id: 'NEWLAND_N950__N950NCB801293324',
            sucursal_id: 'SUC-1',
            caja_id: 'CAJA-1',
            operating_mode: 'PDV',
          },
        }),
    ),
  })
  .meta({ id: 'Terminals' })

export const OperatingModeBody = z
  .strictObject({
    caja_id: ErpId.describe('ERP box id'),
    operating_mode: z
      .enum(operatingModes)
      .describe('PDV: controlled by the ERP; STANDALONE: works on its own'),
  })
  .meta({ id: 'SetOperatingMode', example: { caja_id: 'CAJA-1', operating_mode: 'PDV' } })

export const OperatingModeResponse = z
  .object({ message: z.string(), terminals_updated: z.number() })
  .meta({
    id: 'OperatingModeSet',
    example: {
      message: 'The mode is PDV; restart the device for it to take effect',
      terminals_updated: 1,
    },
  })
