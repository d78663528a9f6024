import { badCall, ControlError } from './control-error.ts'
import { newFreeNumber } from './ids.ts'
import { isRecord } from './problems.ts'
import type { Pos, Terminal } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { pdvOn } from './terminals.ts'

const models = { NEWLAND_N950: 'N950NCB', PAX_A910: 'SMARTPOS' }

/**
 * Pairs a new virtual terminal with a box, as the seller does on the device. Without `operating_mode` the first
 * terminal of a box is in PDV and any further one STANDALONE. Throws a control error: 400, 404 for an unknown box, 409.
 */
export function pairTerminal(ctx: Context, body: unknown): Terminal {
  if (!isRecord(body)) throw badCall('send a JSON object with pos_id or external_pos_id')
  const known = 'pos_id external_pos_id user_id operating_mode model cancel_by_api'.split(' ')
  const extra = Object.keys(body).find((key) => !known.includes(key))
  if (extra !== undefined) throw badCall(`${extra} is not known`)
  const pos = findBox(ctx, body)
  const other = pdvOn(ctx, pos.id)
  const mode = body.operating_mode ?? (other === undefined ? 'PDV' : 'STANDALONE')
  if (mode !== 'PDV' && mode !== 'STANDALONE' && mode !== 'UNDEFINED') {
    throw badCall('operating_mode must be PDV, STANDALONE or UNDEFINED')
  }
  if (mode === 'PDV' && other !== undefined) {
    throw new ControlError(409, `box ${pos.id} has a terminal in PDV already: ${other.id}`)
  }
  const model = body.model ?? 'NEWLAND_N950'
  if (model !== 'NEWLAND_N950' && model !== 'PAX_A910') {
    throw badCall('model must be NEWLAND_N950 or PAX_A910')
  }
  const idOf = (serial: number) => `${model}__${models[model]}${serial}`
  const serial = newFreeNumber(9, (candidate) => ctx.state.tables.terminals.has(idOf(candidate)))
  const terminal: Terminal = {
    id: idOf(serial),
    userId: pos.userId,
    posId: pos.id,
    operatingMode: mode,
    cancelByApi: body.cancel_by_api !== false,
  }
  ctx.state.commit('terminal.paired', terminal.id, { terminals: { [terminal.id]: terminal } })
  return terminal
}

function findBox(ctx: Context, body: Record<string, unknown>): Pos {
  const { pos_id: id, external_pos_id: externalId, user_id: userId } = body
  if (id === undefined && externalId === undefined) {
    throw badCall('pos_id or external_pos_id is required')
  }
  const boxes = [...ctx.state.tables.pos.values()].filter(
    (pos) =>
      (id === undefined || String(pos.id) === String(id)) &&
      (externalId === undefined || pos.externalId === externalId) &&
      (userId === undefined || String(pos.userId) === String(userId)),
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
