import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { keptRequests } from './call-faults.ts'
import { chargebackControl } from './chargebacks.ts'
import {
  anything,
  badCall,
  ControlError,
  numberIn,
  oneOf,
  positiveNumber,
  readCall,
} from './control-body.ts'
import { readFaultRules, showFaults } from './faults.ts'
import { oneText } from './form.ts'
import { keyMemoryMs } from './idempotency.ts'
import { readLedger } from './ledger.ts'
import { notCrossSite } from './loopback-guard.ts'
import { act } from './order-actions.ts'
import { readOrderBody } from './order-body.ts'
import { commitOrder } from './order-moves.ts'
import { showOrder } from './order-view.ts'
import { openOrderOn, placeOrder } from './orders.ts'
import { pairTerminal } from './pairing.ts'
import { actOnPayment } from './payment-refunds.ts'
import { searchReach } from './payments.ts'
import { addPayments } from './payments-without-order.ts'
import { applicationOf, type Context } from './sandbox-context.ts'
import { createSeller, revokeSeller } from './sellers.ts'
import { siteIds } from './sites.ts'
import { beginSituation, situations } from './situations.ts'
import { showState } from './state-view.ts'
import { showTerminal } from './terminals.ts'
import { type Fields, isRecord } from './validation-errors.ts'
import { webhookControl } from './webhook-control.ts'

/** The control surface under /_sandbox, for the demo, the tests and the page (loopback, same site only). */
export function controlRoutes(app: FastifyInstance, ctx: Context): void {
  app.addHook('onRequest', async (request, reply) => {
    if (!notCrossSite(request)) {
      return reply.code(403).send({ error: 'sent by another site', code: 'FORBIDDEN' })
    }
  })

  app.get('/_sandbox/info', () => {
    const { clientId, clientSecret, webhookSecrets } = applicationOf(ctx)
    return { client_id: clientId, client_secret: clientSecret, webhook_secrets: webhookSecrets }
  })
  // `?effects=0` leaves out the long list of effects.
  app.get('/_sandbox/ledger', (request) => {
    const { effects, ...books } = readLedger(ctx)
    return oneText(request.query, 'effects') === '0' ? books : { ...books, effects }
  })
  app.get('/_sandbox/state', () => showState(ctx))

  app.post('/_sandbox/terminals', (request, reply) => {
    return reply.code(201).send(showTerminal(ctx, pairTerminal(ctx, request.body)))
  })
  // An order of another application, or made in the provider's panel.
  app.post('/_sandbox/orders', (request, reply) => {
    const { expirySeconds, amountCents, ...wanted } = readOrderBody(request.body)
    const terminal = ctx.state.tables.terminals.get(wanted.terminalId)
    const seller = ctx.state.tables.sellers.get(String(terminal?.userId))
    if (seller === undefined) throw new ControlError(404, 'there is no such terminal')
    if (openOrderOn(ctx, wanted.terminalId)) throw new ControlError(409, 'the terminal is taken')
    const order = placeOrder(ctx, seller, { ...wanted, amountCents, expirySeconds }, '')
    const shown = { integration_data: { application_id: 'another' } }
    const foreign = commitOrder(ctx, { ...order, shown }, null, 'order.shown')
    return reply.code(201).send(showOrder(ctx, foreign))
  })
  app.post<{ Params: { id: string } }>('/_sandbox/orders/:id/act', (request) => {
    return showOrder(ctx, act(ctx, request.params.id, request.body))
  })

  // Members that replace those of the order in answers; null ends a replacement. The stored order does not change.
  app.put<{ Params: { id: string } }>('/_sandbox/orders/:id/shown', (request) => {
    const order = ctx.state.tables.orders.get(request.params.id)
    if (order === undefined) throw new ControlError(404, `there is no order ${request.params.id}`)
    const shown = request.body ?? null
    if (shown !== null && !isRecord(shown)) throw badCall('send a JSON object, or null')
    return showOrder(ctx, commitOrder(ctx, { ...order, shown }, null, 'order.shown'))
  })

  app.get('/_sandbox/faults', () => showFaults(ctx))
  app.put('/_sandbox/faults', (request) => {
    ctx.faults = readFaultRules(request.body)
    return showFaults(ctx)
  })
  app.post('/_sandbox/faults', (request) => {
    ctx.faults.push(...readFaultRules(request.body))
    return showFaults(ctx)
  })
  // `?user_id=` ends the rules about one account only.
  app.delete('/_sandbox/faults', (request) => {
    const userId = oneText(request.query, 'user_id')
    ctx.faults = ctx.faults.filter(
      ({ rule }) => userId !== undefined && rule.user_id !== Number(userId),
    )
    return showFaults(ctx)
  })

  app.get('/_sandbox/situations', () => ({ situations }))
  app.post<{ Params: { id: string } }>('/_sandbox/situations/:id', (request) => {
    beginSituation(ctx, request.params.id)
    return showFaults(ctx)
  })

  app.get('/_sandbox/pace', () => showPace(ctx))
  app.put('/_sandbox/pace', (request) => {
    const { fetch_ms: fetchMs = ctx.pace.fetchMs, event_ms: eventMs = ctx.pace.eventMs } = readCall(
      Pace,
      request.body,
    )
    Object.assign(ctx.pace, { fetchMs, eventMs })
    ctx.wake()
    return showPace(ctx)
  })

  app.post('/_sandbox/payments', (request, reply) => {
    return reply.code(201).send({ payments: addPayments(ctx, request.body) })
  })
  app.post<{ Params: { id: string } }>('/_sandbox/payments/:id/act', (request) =>
    actOnPayment(ctx, request.params.id, request.body),
  )
  app.put('/_sandbox/index', (request) => {
    const settings = readCall(Index, request.body)
    ctx.index = { ...settings, drift: 0 }
    return settings
  })

  // Whether the token answers of an account have no refresh token: at a connection, or only at a renewal.
  app.put('/_sandbox/tokens', (request) => {
    const call = readCall(Tokens, fieldsOf(request.body))
    if (call.without_refresh) ctx.withoutRefresh.add(call.user_id)
    else ctx.withoutRefresh.delete(call.user_id)
    return call
  })

  // A print that another program sent to a terminal, or its end (`pending: false`).
  app.put('/_sandbox/prints', (request) => {
    const { terminal_id: id, pending } = readCall(Prints, fieldsOf(request.body))
    if (!ctx.state.tables.terminals.has(String(id))) {
      throw new ControlError(404, 'there is no such terminal')
    }
    if (pending) ctx.prints.add(String(id))
    else ctx.prints.delete(String(id))
    return { terminal_id: id, pending }
  })

  app.put('/_sandbox/keys', (request) => {
    ctx.keyMemoryMs = readCall(Keys, request.body).memory_ms
    return { memory_ms: ctx.keyMemoryMs }
  })

  // `?last=` limits the answer to the newest entries.
  app.get('/_sandbox/requests', (request) => {
    const last = Number(oneText(request.query, 'last') ?? Infinity)
    return { requests: ctx.requests.entries.slice(-keptRequests).slice(-last) }
  })
  app.delete('/_sandbox/requests', () => {
    ctx.requests.entries = []
    return { requests: [] }
  })

  app.post('/_sandbox/users', (request, reply) => {
    const call = readCall(NewUser, fieldsOf(request.body))
    if (ctx.state.tables.sellers.has(String(call.id))) {
      throw new ControlError(409, `user ${call.id} exists`)
    }
    const { id, nickname, liveMode } = createSeller(ctx, {
      id: call.id,
      nickname: call.nickname,
      liveMode: call.live_mode,
      siteId: call.site_id,
    })
    return reply.code(201).send({ id, nickname, live_mode: liveMode })
  })
  app.post<{ Params: { id: string } }>('/_sandbox/users/:id/revoke', (request) => {
    const seller = ctx.state.tables.sellers.get(request.params.id)
    if (seller === undefined) throw new ControlError(404, `there is no user ${request.params.id}`)
    revokeSeller(ctx, seller)
    return { id: seller.id, revoked: true }
  })

  chargebackControl(app, ctx)
  webhookControl(app, ctx)
}

const milliseconds = numberIn(0, 86_400_000, ' of milliseconds')
const withTimes = 'send a JSON object with times in milliseconds'

const Pace = z.object(
  { fetch_ms: milliseconds.optional(), event_ms: milliseconds.optional() },
  withTimes,
)
const Keys = z.object({ memory_ms: milliseconds.default(keyMemoryMs) }, withTimes)
const Index = z.object(
  {
    lag_ms: milliseconds.default(0),
    charges_after_ms: milliseconds.default(0),
    results_at_most: positiveNumber.default(searchReach),
    total_step: z.int('must be a whole number').default(0),
  },
  withTimes,
)
const Tokens = z.object({
  user_id: z.int('must be a whole number'),
  without_refresh: z.boolean('must be boolean'),
})
const Prints = z.object({ terminal_id: anything, pending: z.boolean('must be boolean') })
const NewUser = z.object({
  id: positiveNumber.optional(),
  nickname: z.string('must be a string').optional(),
  live_mode: z.boolean('must be boolean').optional(),
  site_id: oneOf(siteIds).optional(),
})

/** The fields of a body that may be absent. */
function fieldsOf(body: unknown): Fields {
  return isRecord(body) ? body : {}
}

function showPace(ctx: Context): object {
  return { fetch_ms: ctx.pace.fetchMs, event_ms: ctx.pace.eventMs }
}
