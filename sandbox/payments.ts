import type { FastifyInstance } from 'fastify'
import { authenticate } from './auth.ts'
import { apiError } from './errors.ts'
import { oneText } from './form.ts'
import { readPage } from './page.ts'
import { type PaymentEntry, paymentsOf, showPaymentEntry } from './payment-view.ts'
import type { Seller } from './rows.ts'
import type { Context } from './sandbox-context.ts'

/** The maximum of offset plus limit of a search. */
export const searchReach = 10_000

const filters = ['external_reference', 'status', 'store_id', 'pos_id', 'collector.id']

/**
 * Payments of orders and without one. Paths, parameters and fields are those that projects have observed and that the
 * provider documents; not tested against the real provider.
 */
export function paymentRoutes(app: FastifyInstance, ctx: Context): void {
  app.get('/v1/payments/search', (request) => {
    return searchPayments(ctx, authenticate(ctx, request), request.query)
  })

  app.get<{ Params: { id: string } }>('/v1/payments/:id', (request) => {
    const seller = authenticate(ctx, request)
    const entry = paymentsOf(ctx, seller.id).find(({ id }) => String(id) === request.params.id)
    if (entry === undefined) throw apiError(404, 'not_found', 'Payment not found')
    return showPaymentEntry(ctx, entry)
  })
}

/** Reading one payment shows its current state. The search lags behind, and misses the newest payments. */
function searchPayments(ctx: Context, seller: Seller, query: unknown): object {
  const page = readPage(query, filters, { limit: 30, highest: 1000 })
  if (page.offset + page.limit > ctx.index.results_at_most) {
    throw apiError(400, 'bad_request', `offset plus limit exceeds ${ctx.index.results_at_most}`)
  }
  const range = oneText(query, 'range') ?? 'date_created'
  const timeOf = times[range]
  if (timeOf === undefined) throw apiError(400, 'bad_request', 'Invalid range')
  const from = dateOf(query, 'begin_date') ?? Number.NEGATIVE_INFINITY
  const to = dateOf(query, 'end_date') ?? Number.POSITIVE_INFINITY
  const newest = ctx.nowMs() - ctx.index.lag_ms
  const fits = (name: string, value: string | number | null) => {
    const wanted = page.filters.get(name)
    return wanted === undefined || wanted === String(value)
  }
  const found = paymentsOf(ctx, seller.id).filter(
    (entry) =>
      entry.createdAt <= newest &&
      timeOf(entry) >= from &&
      timeOf(entry) <= to &&
      timeOf(entry) <= newest &&
      fits('external_reference', entry.externalReference) &&
      fits('status', entry.status) &&
      fits('store_id', entry.storeId) &&
      fits('pos_id', entry.posId) &&
      fits('collector.id', seller.id),
  )
  const sign = oneText(query, 'criteria') === 'asc' ? 1 : -1
  found.sort((a, b) => sign * (timeOf(a) - timeOf(b) || a.id - b.id))
  return {
    paging: { total: totalOf(ctx, found.length), limit: page.limit, offset: page.offset },
    results: found
      .slice(page.offset, page.offset + page.limit)
      .map((entry) => showPaymentEntry(ctx, entry)),
  }
}

/** The true number, plus what each answer so far has added to it. */
function totalOf(ctx: Context, found: number): number {
  ctx.index.drift += ctx.index.total_step
  return found + ctx.index.drift
}

const times: Record<string, (entry: PaymentEntry) => number> = {
  date_created: ({ createdAt }) => createdAt,
  date_last_updated: ({ updatedAt }) => updatedAt,
}

function dateOf(query: unknown, name: string): number | undefined {
  const text = oneText(query, name)
  if (text === undefined) return undefined
  const ms = Date.parse(text)
  if (Number.isNaN(ms)) throw apiError(400, 'bad_request', `Invalid ${name}`)
  return ms
}
