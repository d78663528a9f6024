import { z } from 'zod'
import {
  amount,
  anything,
  ControlError,
  dateMs,
  field,
  oneOf,
  positiveNumber,
  readCall,
} from './control-body.ts'
import { newNumber } from './ids.ts'
import { paymentMethod, paymentTypes } from './payment-methods.ts'
import type { PaymentWithoutOrder } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import type { Fields } from './validation-errors.ts'

const NewPayment = z.strictObject(
  {
    user_id: anything,
    pos_id: anything,
    external_pos_id: anything,
    amount,
    id: positiveNumber.optional(),
    at: field(dateMs, 'must be a date').optional(),
    status: z.coerce.string().default('approved'),
    status_detail: z.coerce.string().default('accredited'),
    external_reference: z.coerce.string().optional(),
    payment_method_type: oneOf(paymentTypes).optional(),
    payment_method_id: z.coerce.string().optional(),
    installments: z.int().optional().catch(undefined),
  },
  'send a JSON object, or a list of them',
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

function boxFinder(ctx: Context) {
  const all = [...ctx.state.tables.pos.values()]
  return ({ user_id: userId, pos_id: id, external_pos_id: externalId }: Fields) =>
    all.find(
      (pos) =>
        pos.userId === userId &&
        (id === undefined ? pos.externalId === externalId : String(pos.id) === String(id)),
    )
}

function readPayment(
  ctx: Context,
  body: unknown,
  boxes: ReturnType<typeof boxFinder>,
): PaymentWithoutOrder {
  const call = readCall(NewPayment, body)
  const userId = Number(call.user_id)
  if (!ctx.state.tables.sellers.has(String(call.user_id))) {
    throw new ControlError(404, 'no such user')
  }
  const isOnline = call.pos_id === undefined && call.external_pos_id === undefined
  const box = isOnline ? undefined : boxes(call)
  if (!isOnline && box === undefined) throw new ControlError(404, 'there is no such box')
  const at = call.at ?? ctx.nowMs()
  return {
    id: call.id ?? newNumber(12),
    userId,
    posId: box?.id ?? null,
    storeId: box?.storeId ?? null,
    externalReference: call.external_reference ?? null,
    amountCents: call.amount,
    status: call.status,
    statusDetail: call.status_detail,
    method: paymentMethod(call),
    createdAt: at,
    updatedAt: at,
    refunds: [],
  }
}
