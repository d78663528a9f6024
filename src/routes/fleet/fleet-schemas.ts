import { z } from 'zod'
import { actions, causes, causeWords } from '../../fleet/causes.ts'
import { healthStates, subjectKinds } from '../../fleet/health-states.ts'
import { en } from '../../texts/en.ts'
import { AnyClientQuery, ErpId, queryLimit, Timestamp } from '../field-schemas.ts'

export const FleetQuery = z.object({
  ...AnyClientQuery,
  only: z.enum(['problems']).optional().describe('problems: only `attention` and `down`'),
})

const State = z
  .enum(healthStates)
  .describe(
    'ok: it worked a short while ago; attention: it works and needs a check; down: it cannot work now; unknown: no recent use',
  )
const Cause = z.enum(causeWords).nullable().describe('Why, as a fixed word; null for ok')
const Since = Timestamp.nullable().describe('Since when it is so')
const Message = z
  .string()
  .nullable()
  .describe('The same as a sentence in the language of Accept-Language (es, en, pt); null for ok')
const Help = z.enum(actions).nullable().describe('The one thing that helps, as a fixed word')

const health = { state: State, cause: Cause, since: Since, action: Help, message: Message }

export const FleetResponse = z
  .object({
    at: Timestamp,
    boxes: z.array(
      z.object({
        client: z.string(),
        caja_id: z.string(),
        sucursal_id: z.string(),
        terminal_id: z.string().nullable().describe('The last one it was seen with'),
        ...health,
        order_id: z
          .uuid()
          .nullable()
          .describe('The order that it is about: what holds the terminal, or is in doubt'),
      }),
    ),
    connections: z.array(z.object({ client: z.string(), ...health })),
    flows: z
      .array(
        z.object({
          flow: z.string(),
          ...health,
          destinations: z.array(
            z.object({
              name: z.string(),
              ...health,
              next_try_at: Timestamp.nullable(),
              pending: z.number().describe('Items that it is still to be sent'),
            }),
          ),
        }),
      )
      .describe('For the administrator only: flows belong to no client'),
  })
  .meta({
    id: 'FleetHealth',
    example: {
      at: '2026-11-21T13:05:00.000Z',
      boxes: [
        {
          client: 'acme',
          caja_id: 'CAJA-1',
          sucursal_id: 'SUC-1',
          terminal_id: 'NEWLAND_N950__N950NCB801293324',
          state: 'down',
          cause: 'terminal_silent',
          since: '2026-11-21T12:58:00.000Z',
          action: 'check_terminal_power',
          message:
            'La terminal NEWLAND_N950__N950NCB801293324 no responde desde hace 7 minutos: probá en otra caja y revisá que esté encendida y con conexión.',
          order_id: '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7',
        },
      ],
      connections: [
        {
          client: 'acme',
          state: 'ok',
          cause: null,
          since: '2026-11-21T09:00:00.000Z',
          action: null,
          message: null,
        },
      ],
      flows: [],
    },
  })

export const FleetChangesQuery = z.object({
  ...AnyClientQuery,
  caja_id: ErpId.optional().describe('Of this box only').meta({ example: 'CAJA-1' }),
  before: z.coerce
    .number()
    .int()
    .positive()
    .max(Number.MAX_SAFE_INTEGER)
    .optional()
    .describe('Older than this change: `next_before` of the page before'),
  limit: queryLimit(200, 50),
})

const ChangedTo = z.object({
  state: z
    .enum([...healthStates, 'gone'])
    .describe('As in `GET /health/fleet`; gone: there is no such thing any more'),
  cause: Cause,
})

export const FleetChangesResponse = z
  .object({
    changes: z.array(
      z.object({
        id: z.number().describe('Grows in the order of the changes'),
        at: Timestamp,
        kind: z.enum(subjectKinds),
        client: z.string().nullable().describe('Of a box or a connection'),
        flow: z.string().nullable().describe('Of a destination'),
        name: z
          .string()
          .nullable()
          .describe('The caja_id, the flow or the destination; null for a connection'),
        from: ChangedTo.nullable(),
        to: ChangedTo,
        message: Message,
      }),
    ),
    next_before: z.number().nullable().describe('null: there are no older ones'),
  })
  .meta({
    id: 'FleetChanges',
    example: {
      changes: [
        {
          id: 41,
          at: '2026-11-21T12:58:20.000Z',
          kind: 'box',
          client: 'acme',
          flow: null,
          name: 'CAJA-1',
          from: { state: 'ok', cause: null },
          to: { state: 'down', cause: 'terminal_missing' },
          message:
            'La caja no tiene ninguna terminal vinculada: vinculá una en la app de Mercado Pago.',
        },
      ],
      next_before: null,
    },
  })

/** The causes with their meaning and remedy, for the description of the API. */
export const causeTable = [
  '| cause | meaning | action |',
  '|---|---|---|',
  ...causeWords.map((cause) => {
    const action = causes[cause]
    const meaning = en[`fleet.${cause}`].replace(/\[[^\]]*\]/g, '').replace(/\{\w+\}/g, '…')
    return `| \`${cause}\` | ${meaning} | ${action === null ? '' : `\`${action}\``} |`
  }),
].join('\n')
