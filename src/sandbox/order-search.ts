import { apiError } from './errors.ts'
import { oneText } from './form.ts'
import { showOrder } from './order-view.ts'
import { Problems } from './problems.ts'
import type { Seller } from './rows.ts'
import type { Context } from './sandbox-context.ts'

const filters = [
  'begin_date',
  'end_date',
  'external_reference',
  'type',
  'status',
  'status_detail',
  'page',
  'page_size',
  'sort_by',
  'sort_order',
  'payment_method_id',
  'payment_method_type',
]

/** 30 days: this text was observed, and the code is on the BR page (provider facts: order search). */
const longestWindowMs = 720 * 3_600_000

/**
 * GET /v1/orders. The provider does not document it for Point: names, the two required dates and the form of the answer
 * are from the official SDK's types (provider facts 10.1).
 */
export function searchOrders(ctx: Context, seller: Seller, query: unknown): object {
  const problems = new Problems()
  const fields =
    problems.record({ ...Object(query) }, 'body', ['begin_date', 'end_date'], filters) ?? {}
  const date = (name: string) => {
    const text = problems.text(fields, name, name, (value) => !Number.isNaN(Date.parse(value)))
    return text === undefined ? 0 : Date.parse(text)
  }
  const whole = (name: string, fallback: number, high: number) => {
    const text = problems.text(fields, name, name, (value) => /^[1-9]\d{0,8}$/.test(value))
    return Math.min(high, text === undefined ? fallback : Number(text))
  }
  const from = date('begin_date')
  const to = date('end_date')
  const page = whole('page', 1, 1_000_000)
  const size = whole('page_size', 20, 100)
  const ascending = problems.text(fields, 'sort_order', 'sort_order', (value) =>
    ['asc', 'desc'].includes(value),
  )
  problems.throwIfAny()
  if (to - from > longestWindowMs) {
    throw apiError(400, 'invalid_parameter', 'The maximum allowed range is 1 month.')
  }
  const newest = ctx.nowMs() - ctx.index.lag_ms
  const wanted = (name: string, value: string | undefined) => {
    const text = oneText(query, name)
    return text === undefined || text === value
  }
  const found = [...ctx.state.tables.orders.values()].filter(
    (order) =>
      order.userId === seller.id &&
      order.createdAt >= from &&
      order.createdAt <= to &&
      order.createdAt <= newest &&
      wanted('external_reference', order.externalReference) &&
      wanted('type', 'point') &&
      wanted('status', order.status) &&
      wanted('status_detail', order.statusDetail) &&
      wanted('payment_method_id', order.payment.method?.id) &&
      wanted('payment_method_type', order.payment.method?.type),
  )
  found.sort((a, b) => (a.createdDate < b.createdDate ? -1 : 1) * (ascending === 'asc' ? 1 : -1))
  const offset = (page - 1) * size
  return {
    data: found.slice(offset, offset + size).map((order) => showOrder(ctx, order)),
    paging: {
      total: String(found.length),
      total_pages: String(Math.ceil(found.length / size)),
      offset: String(offset),
      limit: String(size),
    },
  }
}
