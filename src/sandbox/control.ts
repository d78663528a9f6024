import type { FastifyInstance } from 'fastify'
import { act } from './act.ts'
import { chargebackControl } from './chargebacks.ts'
import { badCall, ControlError } from './control-error.ts'
import { type FaultRule, readFaultRules } from './faults.ts'
import { oneText } from './form.ts'
import { keyMemoryMs } from './idempotency.ts'
import { readLedger } from './ledger.ts'
import { notCrossSite } from './loopback-guard.ts'
import { addPayments } from './loose-payments.ts'
import { readOrderBody } from './order-body.ts'
import { commitOrder } from './order-moves.ts'
import { showOrder } from './order-view.ts'
import { openOrderOn, placeOrder } from './orders.ts'
import { pairTerminal } from './pairing.ts'
import { actOnPayment } from './payment-refunds.ts'
import { searchReach } from './payments.ts'
import { isRecord } from './problems.ts'
import { applicationOf, type Context, oddLists } from './sandbox-context.ts'
import { createSeller, revokeSeller } from './sellers.ts'
import { siteIds } from './sites.ts'
import { showState } from './state-view.ts'
import { showTerminal } from './terminals.ts'
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

  app.get('/_sandbox/faults', () => ({ rules: ctx.faults.list() }))
  app.put('/_sandbox/faults', (request) => {
    ctx.faults.replace(readRules(request.body))
    return { rules: ctx.faults.list() }
  })
  app.post('/_sandbox/faults', (request) => {
    ctx.faults.add(readRules(request.body))
    return { rules: ctx.faults.list() }
  })
  // `?user_id=` ends the rules about one account only.
  app.delete('/_sandbox/faults', (request) => {
    const userId = oneText(request.query, 'user_id')
    if (userId === undefined) ctx.faults.replace([])
    else ctx.faults.endRulesOf(Number(userId))
    return { rules: ctx.faults.list() }
  })

  app.get('/_sandbox/pace', () => showPace(ctx))
  app.put('/_sandbox/pace', (request) => {
    const fetchMs = readMs(request.body, 'fetch_ms') ?? ctx.pace.fetchMs
    const eventMs = readMs(request.body, 'event_ms') ?? ctx.pace.eventMs
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
    ctx.index.lagMs = readMs(request.body, 'lag_ms') ?? 0
    ctx.index.chargesAfterMs = readMs(request.body, 'charges_after_ms') ?? 0
    const { results_at_most: atMost = searchReach, total_step: step = 0 } = isRecord(request.body)
      ? request.body
      : {}
    if (!Number.isSafeInteger(atMost) || Number(atMost) < 1) {
      throw badCall('results_at_most must be a positive whole number')
    }
    if (!Number.isSafeInteger(step)) throw badCall('total_step must be a whole number')
    Object.assign(ctx.index, { resultsAtMost: Number(atMost), totalStep: Number(step), drift: 0 })
    return {
      lag_ms: ctx.index.lagMs,
      charges_after_ms: ctx.index.chargesAfterMs,
      results_at_most: ctx.index.resultsAtMost,
      total_step: ctx.index.totalStep,
    }
  })

  // Whether the token answers of an account have no refresh token: at a connection, or only at a renewal.
  app.put('/_sandbox/tokens', (request) => {
    const { user_id: userId, without_refresh: without } = isRecord(request.body) ? request.body : {}
    if (!Number.isSafeInteger(userId)) throw badCall('user_id must be a whole number')
    if (typeof without !== 'boolean') throw badCall('without_refresh must be boolean')
    if (without) ctx.withoutRefresh.add(Number(userId))
    else ctx.withoutRefresh.delete(Number(userId))
    return { user_id: userId, without_refresh: without }
  })

  // A print that another program sent to a terminal, or its end (`pending: false`).
  app.put('/_sandbox/prints', (request) => {
    const { terminal_id: id, pending } = isRecord(request.body) ? request.body : {}
    if (!ctx.state.tables.terminals.has(String(id))) {
      throw new ControlError(404, 'there is no such terminal')
    }
    if (typeof pending !== 'boolean') throw badCall('pending must be boolean')
    if (pending) ctx.prints.add(String(id))
    else ctx.prints.delete(String(id))
    return { terminal_id: id, pending }
  })

  // Rows that a list of an account shows before the real ones.
  app.put('/_sandbox/odd-rows', (request) => {
    const { user_id: userId, list, rows } = isRecord(request.body) ? request.body : {}
    const known = oddLists.find((one) => one === list)
    if (known === undefined) throw badCall(`list must be one of ${oddLists.join(', ')}`)
    if (!Array.isArray(rows)) throw badCall('rows must be a list')
    ctx.oddRows.set(`${userId} ${known}`, rows)
    return { user_id: userId, list, rows }
  })

  app.put('/_sandbox/keys', (request) => {
    ctx.keyMemoryMs = readMs(request.body, 'memory_ms') ?? keyMemoryMs
    return { memory_ms: ctx.keyMemoryMs }
  })

  // `?last=` limits the answer to the newest entries.
  app.get('/_sandbox/requests', (request) => {
    const last = Number(oneText(request.query, 'last') ?? Infinity)
    return { requests: ctx.requests.list().slice(-last) }
  })
  app.delete('/_sandbox/requests', () => {
    ctx.requests.clear()
    return { requests: [] }
  })

  app.post('/_sandbox/users', (request, reply) => {
    const {
      id,
      nickname,
      live_mode: live,
      site_id: site,
    } = isRecord(request.body) ? request.body : {}
    if (id !== undefined && !(Number.isSafeInteger(id) && Number(id) > 0)) {
      throw badCall('id must be a positive whole number')
    }
    if (nickname !== undefined && typeof nickname !== 'string') {
      throw badCall('nickname must be a string')
    }
    if (live !== undefined && typeof live !== 'boolean') throw badCall('live_mode must be boolean')
    if (site !== undefined && !siteIds.includes(String(site))) {
      throw badCall(`site_id must be one of ${siteIds.join(', ')}`)
    }
    if (ctx.state.tables.sellers.has(String(id))) {
      throw new ControlError(409, `user ${id} exists`)
    }
    const seller = createSeller(ctx, {
      ...(id !== undefined && { id: Number(id) }),
      ...(nickname !== undefined && { nickname }),
      ...(live !== undefined && { liveMode: live }),
      ...(site !== undefined && { siteId: String(site) }),
    })
    const { id: made, nickname: name, liveMode } = seller
    return reply.code(201).send({ id: made, nickname: name, live_mode: liveMode })
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

const longestMs = 86_400_000

function readRules(body: unknown): FaultRule[] {
  try {
    return readFaultRules(body)
  } catch (error) {
    throw badCall(error instanceof Error ? error.message : 'bad rules')
  }
}

function showPace(ctx: Context): object {
  return { fetch_ms: ctx.pace.fetchMs, event_ms: ctx.pace.eventMs }
}

function readMs(body: unknown, key: string): number | undefined {
  if (!isRecord(body)) throw badCall('send a JSON object with times in milliseconds')
  const value = body[key]
  if (value === undefined) return undefined
  if (typeof value !== 'number' || !(value >= 0 && value <= longestMs)) {
    throw badCall(`${key} must be a number of milliseconds from 0 to ${longestMs}`)
  }
  return value
}
