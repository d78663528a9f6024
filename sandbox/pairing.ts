import { z } from 'zod'
import { anything, badCall, ControlError, readCall } from './control-body.ts'
import { newFreeNumber } from './ids.ts'
import type { Pos, Terminal } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { pdvOn } from './terminals.ts'

const models = { NEWLAND_N950: 'N950NCB', PAX_A910: 'SMARTPOS' }

const NewTerminal = z.strictObject(
  {
    pos_id: z.coerce.string().optional(),
    external_pos_id: anything,
    user_id: z.coerce.string().optional(),
    operating_mode: z
      .enum(['PDV', 'STANDALONE', 'UNDEFINED'], 'must be PDV, STANDALONE or UNDEFINED')
      .nullish(),
    model: z.enum(['NEWLAND_N950', 'PAX_A910'], 'must be NEWLAND_N950 or PAX_A910').nullish(),
    cancel_by_api: anything,
  },
  'send a JSON object with pos_id or external_pos_id',
)

/**
 * Pairs a new virtual terminal with a box, as the seller does on the device. Without `operating_mode` the first
 * terminal of a box is in PDV and any further one STANDALONE. Throws a control error: 400, 404 for an unknown box, 409.
 */
export function pairTerminal(ctx: Context, body: unknown): Terminal {
  const call = readCall(NewTerminal, body)
  const pos = findBox(ctx, call)
  const other = pdvOn(ctx, pos.id)
  const mode = call.operating_mode ?? (other === undefined ? 'PDV' : 'STANDALONE')
  if (mode === 'PDV' && other !== undefined) {
    throw new ControlError(409, `box ${pos.id} has a terminal in PDV already: ${other.id}`)
  }
  const model = call.model ?? 'NEWLAND_N950'
  const idOf = (serial: number) => `${model}__${models[model]}${serial}`
  const serial = newFreeNumber(9, (candidate) => ctx.state.tables.terminals.has(idOf(candidate)))
  const terminal: Terminal = {
    id: idOf(serial),
    userId: pos.userId,
    posId: pos.id,
    operatingMode: mode,
    cancelByApi: call.cancel_by_api !== false,
  }
  ctx.state.commit('terminal.paired', terminal.id, { terminals: { [terminal.id]: terminal } })
  return terminal
}

function findBox(
  ctx: Context,
  { pos_id: id, external_pos_id: externalId, user_id: userId }: z.output<typeof NewTerminal>,
): Pos {
  if (id === undefined && externalId === undefined) {
    throw badCall('pos_id or external_pos_id is required')
  }
  const boxes = [...ctx.state.tables.pos.values()].filter(
    (pos) =>
      (id === undefined || String(pos.id) === id) &&
      (externalId === undefined || pos.externalId === externalId) &&
      (userId === undefined || String(pos.userId) === userId),
  )
  const [pos] = boxes
  if (pos === undefined) throw new ControlError(404, 'there is no such box')
  if (boxes.length > 1) {
    throw new ControlError(
      409,
      'more than one box has this external_pos_id: add user_id or use pos_id',
    )
  }
  return pos
}
