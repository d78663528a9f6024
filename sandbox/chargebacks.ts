import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { authenticate } from './auth.ts'
import {
  amount,
  anything,
  ControlError,
  dateMs,
  field,
  odd,
  oneOf,
  readCall,
} from './control-body.ts'
import { apiError } from './errors.ts'
import { nanoStamp, newNumber, ulid } from './ids.ts'
import { chargebackDetail } from './order-view.ts'
import { pageOf, readPage } from './page.ts'
import { isPaidEntry, paymentsOf, stamp } from './payment-view.ts'
import type { Change, Chargeback, Order, Payment, Seller } from './rows.ts'
import { applicationOf, type Context } from './sandbox-context.ts'
import { mergeChanges } from './sandbox-state.ts'
import { orderWebhooks, webhookRows } from './webhooks.ts'

/** Cases of charge-backs as the provider documents them (news-2026-11 section 4); not tested against the real provider. */
export function chargebackRoutes(app: FastifyInstance, ctx: Context): void {
  app.get('/v1/chargebacks/search', (request) => {
    const seller = authenticate(ctx, request)
    requireCaller(seller, request.headers['x-caller-id'])
    const page = readPage(request.query, ['payment_id'], { limit: 10, highest: 100 })
    const paymentId = page.filters.get('payment_id')
    const found = casesOf(ctx, seller).filter(
      (one) => paymentId === undefined || String(one.paymentId) === paymentId,
    )
    const shown = found.map((one) => showCase(ctx, seller, one))
    return pageOf(page, shown)
  })

  app.get<{ Params: { id: string } }>('/v1/chargebacks/:id', (request) => {
    const seller = authenticate(ctx, request)
    requireCaller(seller, request.headers['x-caller-id'])
    const one = casesOf(ctx, seller).find(({ id }) => id === request.params.id)
    if (one === undefined) throw apiError(404, 'not_found', 'Chargeback not found')
    return showCase(ctx, seller, one)
  })
}

/**
 * Part of the control surface. POST /_sandbox/chargebacks opens a case of `order_id` or `payment_id`, with `amount`,
 * `reason`, `coverage_eligible` and `deadline` (null: no documents). POST …/{case}/act has `do`: `win`, `lose`,
 * `documentation` with `status`, or `deadline` with a new one. Both take `webhooks` (both, order, case, none), `form`
 * of the case's webhook (actions, action), and `odd`: members that replace those of the case in answers.
 */
export function chargebackControl(app: FastifyInstance, ctx: Context): void {
  app.post('/_sandbox/chargebacks', (request, reply) => {
    const made = openCase(ctx, request.body)
    return reply.code(201).send(showCase(ctx, sellerOf(ctx, made), made))
  })
  app.post<{ Params: { id: string } }>('/_sandbox/chargebacks/:id/act', (request) => {
    const after = actOnCase(ctx, request.params.id, request.body)
    return showCase(ctx, sellerOf(ctx, after), after)
  })
}

function requireCaller(seller: Seller, caller: string | string[] | undefined): void {
  if (caller !== String(seller.id)) {
    throw apiError(400, 'bad_request', 'The header X-Caller-Id must name the seller')
  }
}

function casesOf(ctx: Context, seller: Seller): Chargeback[] {
  return [...ctx.state.tables.chargebacks.values()].filter(({ userId }) => userId === seller.id)
}

function sellerOf(ctx: Context, { userId }: Chargeback): Seller {
  return ctx.state.tables.sellers.get(String(userId)) as Seller
}

function showCase(ctx: Context, seller: Seller, one: Chargeback): Record<string, unknown> {
  const isLate = one.deadlineAt !== null && one.deadlineAt <= ctx.nowMs()
  const isNeeded = one.documentationStatus !== 'not_applicable'
  return {
    id: one.id,
    payments: [one.paymentId],
    currency: 'ARS',
    amount: one.amountCents / 100,
    reason: one.reason,
    coverage_elegible: one.coverageEligible,
    coverage_applied: one.coverageApplied,
    documentation_required: isNeeded,
    documentation_status:
      one.documentationStatus === 'pending' && isLate ? 'not_supplied' : one.documentationStatus,
    documentation: [],
    date_documentation_deadline: one.deadlineAt === null ? null : stamp(one.deadlineAt),
    date_created: stamp(one.openedAt),
    date_last_updated: stamp(one.updatedAt),
    live_mode: seller.liveMode,
    ...one.odd,
  }
}

const deadline = field(
  (value) => (value === null ? null : dateMs(value)),
  'must be a date, or null',
)
const webhooks = {
  webhooks: z
    .enum(['both', 'order', 'case', 'none'], 'must be both, order, case or none')
    .default('both'),
  form: z.enum(['actions', 'action'], 'must be actions or action').default('actions'),
  odd,
}
type Webhooks = { webhooks: 'both' | 'order' | 'case' | 'none'; form: 'actions' | 'action' }

const NewCase = z.strictObject(
  {
    ...webhooks,
    order_id: z.coerce.string().optional(),
    payment_id: z.coerce.string().optional(),
    user_id: z.coerce.string().optional(),
    amount: amount.optional(),
    reason: z.coerce.string().default('general'),
    coverage_eligible: anything,
    deadline: deadline.optional(),
  },
  'send a JSON object',
)
const CaseAct = z.strictObject(
  {
    ...webhooks,
    do: oneOf(['win', 'lose', 'documentation', 'deadline']),
    status: anything,
    deadline: deadline.optional(),
  },
  'send a JSON object',
)

/** Throws a control error: 404 for an unknown order or payment, 409 for a payment without money. */
function openCase(ctx: Context, body: unknown): Chargeback {
  const call = readCall(NewCase, body)
  const { order, payment } = disputed(ctx, call)
  const now = ctx.nowMs()
  const { deadline: deadlineAt = now + 7 * 86_400_000 } = call
  const one: Chargeback = {
    id: `217000${newNumber(9)}000`,
    orderCaseId: `CBK${ulid(now)}`,
    userId: payment.userId,
    orderId: order?.id ?? null,
    paymentId: payment.id,
    amountCents: call.amount ?? payment.amountCents,
    reason: call.reason,
    coverageEligible: call.coverage_eligible !== false,
    coverageApplied: null,
    documentationStatus: deadlineAt === null ? 'not_applicable' : 'pending',
    deadlineAt,
    openedAt: now,
    decidedAt: null,
    updatedAt: now,
    ...(call.odd && { odd: call.odd }),
  }
  commitCase(ctx, one, 'chargeback.opened', call)
  return one
}

/** The payment that is charged back, with its order if it has one. */
function disputed(
  ctx: Context,
  { order_id: orderId, payment_id: paymentId, user_id: user }: z.output<typeof NewCase>,
) {
  const wanted = orderId === undefined ? undefined : ctx.state.tables.orders.get(orderId)
  if (orderId !== undefined && !wanted) throw new ControlError(404, 'there is no such order')
  const number = wanted ? wanted.payment.referenceId : paymentId
  const sellers = [...ctx.state.tables.sellers.values()].filter(
    ({ id }) => user === undefined || String(id) === user,
  )
  const payment = sellers
    .flatMap(({ id }) => paymentsOf(ctx, id))
    .find(({ id }) => String(id) === number)
  if (!payment) throw new ControlError(404, 'there is no such payment')
  if (!isPaidEntry(payment) || payment.status === 'refunded') {
    throw new ControlError(409, `a payment in ${payment.status} takes no charge-back`)
  }
  const order = payment.orderId === null ? undefined : ctx.state.tables.orders.get(payment.orderId)
  return { order, payment }
}

function actOnCase(ctx: Context, id: string, body: unknown): Chargeback {
  const call = readCall(CaseAct, body)
  const known = ctx.state.tables.chargebacks.get(id)
  if (known === undefined) throw new ControlError(404, `there is no case ${id}`)
  const now = ctx.nowMs()
  const after = { ...known, updatedAt: now, ...(call.odd && { odd: call.odd }) }
  if (call.do === 'win' || call.do === 'lose') {
    after.coverageApplied = call.do === 'win'
    after.decidedAt = now
    if (after.documentationStatus === 'pending') after.documentationStatus = 'not_supplied'
  } else if (call.do === 'documentation') {
    after.documentationStatus = String(call.status ?? 'review_pending')
  } else {
    after.deadlineAt = call.deadline === undefined ? now : call.deadline
    after.documentationStatus = after.deadlineAt === null ? 'not_applicable' : 'pending'
  }
  commitCase(ctx, after, `chargeback.${call.do}`, call)
  return after
}

/** Writes the case, its order or payment, and their webhooks as one effect. */
function commitCase(
  ctx: Context,
  one: Chargeback,
  kind: string,
  { webhooks, form }: Webhooks,
): void {
  const statusDetail = chargebackDetail(one.coverageApplied)
  const change: Change = { chargebacks: { [one.id]: one } }
  const order = one.orderId === null ? undefined : ctx.state.tables.orders.get(one.orderId)
  const loose = ctx.state.tables.payments.get(String(one.paymentId))
  const disputedIn = (payment: Payment): Payment =>
    payment.referenceId === String(one.paymentId)
      ? { ...payment, status: 'charged_back', statusDetail }
      : payment
  const after: Order | undefined = order && {
    ...order,
    status: 'charged_back',
    statusDetail,
    lastUpdatedDate: nanoStamp(ctx.nowMs()),
    payment: disputedIn(order.payment),
    ...(order.furtherPayments && { furtherPayments: order.furtherPayments.map(disputedIn) }),
    version: order.version + 1,
  }
  if (after) change.orders = { [after.id]: after }
  if (loose) {
    const updatedAt = ctx.nowMs()
    change.payments = { [loose.id]: { ...loose, status: 'charged_back', statusDetail, updatedAt } }
  }
  ctx.state.commit(kind, one.id, change)
  // The order's webhook names the case, so the case is written first.
  const isOfOrder = after !== undefined && (webhooks === 'both' || webhooks === 'order')
  const isOfCase = webhooks === 'both' || webhooks === 'case'
  const rows = mergeChanges(
    { webhooks: isOfOrder ? orderWebhooks(ctx, after, 'charged_back') : {} },
    { webhooks: isOfCase ? caseWebhooks(ctx, one, form) : {} },
  )
  ctx.state.commit('chargeback.told', one.id, rows)
  ctx.wake()
}

/** `topic_chargebacks_wh`: both observed forms, with the case number as a number. */
function caseWebhooks(ctx: Context, one: Chargeback, form: Webhooks['form']) {
  const seller = sellerOf(ctx, one)
  return webhookRows(ctx, 'topic_chargebacks_wh', one.id, {
    ...(form === 'action'
      ? { action: 'chargebacks.updated', payment_id: one.paymentId }
      : { actions: ['changed_case_status'] }),
    api_version: 'v1',
    application_id: Number(applicationOf(ctx).clientId),
    data: { id: Number(one.id) },
    date_created: new Date(ctx.nowMs()).toISOString(),
    id: newNumber(12),
    live_mode: seller.liveMode,
    type: 'topic_chargebacks_wh',
    user_id: seller.id,
  })
}
