import { parseAmount } from './amounts.ts'
import { paymentMethod, paymentTypes } from './buyer.ts'
import { badCall, ControlError } from './control-error.ts'
import { newNumber } from './ids.ts'
import { type Fields, isRecord } from './problems.ts'
import type { PaymentWithoutOrder, Pos } from './rows.ts'
import type { Context } from './sandbox-context.ts'

const keys =
  'user_id pos_id external_pos_id id amount at status status_detail external_reference payment_method_type payment_method_id installments odd'.split(
    ' ',
  )

/**
 * Charges without an order of the Orders API: entered at a terminal of a box, or without a box an online sale. Takes
 * one or a list of them, with `at` in the past for seeded days. All are stored, or none. Throws a control error.
 */
export function addPayments(ctx: Context, body: unknown): { id: number }[] {
  const list = Array.isArray(body) ? body : [body]
  const boxes = boxFinder(ctx)
  const made = list.map((fields) => readPayment(ctx, fields, boxes))
  const payments = Object.fromEntries(made.map((payment) => [String(payment.id), payment]))
  ctx.state.commit('payments.added', String(made.length), { payments })
  return made.map(({ id }) => ({ id }))
}

type BoxFinder = (fields: Fields) => Pos | undefined

function boxFinder(ctx: Context): BoxFinder {
  const all = [...ctx.state.tables.pos.values()]
  return ({ user_id: userId, pos_id: id, external_pos_id: externalId }) =>
    all.find(
      (pos) =>
        pos.userId === userId &&
        (id === undefined ? pos.externalId === externalId : String(pos.id) === String(id)),
    )
}

function readPayment(ctx: Context, fields: unknown, boxes: BoxFinder): PaymentWithoutOrder {
  if (!isRecord(fields)) throw badCall('send a JSON object, or a list of them')
  const extra = Object.keys(fields).find((key) => !keys.includes(key))
  if (extra !== undefined) throw badCall(`${extra} is not known`)
  const { user_id: userId, id, amount, at, status, external_reference: reference } = fields
  if (!ctx.state.tables.sellers.has(String(userId))) throw new ControlError(404, 'no such user')
  const cents = parseAmount(String(amount))
  if (cents === undefined) throw badCall('amount must be an amount such as "10.00"')
  if (id !== undefined && !(Number.isSafeInteger(id) && Number(id) > 0)) {
    throw badCall('id must be a positive whole number')
  }
  const ms = at === undefined ? ctx.nowMs() : Date.parse(String(at))
  if (Number.isNaN(ms)) throw badCall('at must be a date')
  const { payment_method_type: type, payment_method_id: methodId, installments } = fields
  if (type !== undefined && !paymentTypes.includes(String(type))) {
    throw badCall(`payment_method_type must be one of ${paymentTypes.join(', ')}`)
  }
  const isOnline = fields.pos_id === undefined && fields.external_pos_id === undefined
  const box = isOnline ? undefined : boxes(fields)
  if (!isOnline && box === undefined) throw new ControlError(404, 'there is no such box')
  return {
    id: Number(id ?? newNumber(12)),
    userId: Number(userId),
    posId: box?.id ?? null,
    storeId: box?.storeId ?? null,
    externalReference: reference === undefined ? null : String(reference),
    amountCents: cents,
    status: status === undefined ? 'approved' : String(status),
    statusDetail: fields.status_detail === undefined ? 'accredited' : String(fields.status_detail),
    method: paymentMethod({
      type: type === undefined ? undefined : String(type),
      id: methodId === undefined ? undefined : String(methodId),
      installments: Number.isInteger(installments) ? Number(installments) : undefined,
    }),
    createdAt: ms,
    updatedAt: ms,
    refunds: [],
    ...(isRecord(fields.odd) && { odd: fields.odd }),
  }
}
