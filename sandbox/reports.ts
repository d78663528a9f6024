import type { FastifyInstance } from 'fastify'
import { authenticate } from './auth.ts'
import { badCall, ControlError } from './control-body.ts'
import { ApiError, apiError } from './errors.ts'
import { newNumber } from './ids.ts'
import { paymentsOf } from './payment-view.ts'
import { endOfDay, reportCsv } from './report-csv.ts'
import type { Report, ReportConfig, ReportKind, Seller } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { isRecord } from './validation-errors.ts'

/** How long the creation of a report takes. */
const makingMs = 60_000
const longestSpanMs = 60 * 86_400_000
/** The provider requires dates without milliseconds. */
const dateShape = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/

/**
 * Settlement and release reports as projects have observed them; not tested against the real provider. Real test
 * accounts get empty files. The shop has one configuration per account: `PUT /_sandbox/reports` sets it.
 */
export function reportRoutes(app: FastifyInstance, ctx: Context): void {
  for (const kind of ['settlement', 'release'] as const) {
    const base = `/v1/account/${kind}_report`
    app.get(`${base}/config`, (request) => configOf(ctx, authenticate(ctx, request), kind))

    app.post(base, (request, reply) => {
      const seller = authenticate(ctx, request)
      const report = orderReport(ctx, seller, kind, request.body)
      return reply.code(202).send({ id: report.id, status: 'pending' })
    })

    app.get<{ Params: { id: string } }>(`${base}/task/:id`, (request) => {
      const seller = authenticate(ctx, request)
      const report = ctx.state.tables.reports.get(request.params.id)
      if (report?.userId !== seller.id || report.kind !== kind) throw noReport()
      return isMade(ctx, report)
        ? { id: report.id, status: 'processed', file_name: report.fileName }
        : { id: report.id, status: 'pending' }
    })

    app.get(`${base}/list`, (request) => {
      const seller = authenticate(ctx, request)
      return [...ctx.state.tables.reports.values()]
        .filter((one) => one.userId === seller.id && one.kind === kind && isMade(ctx, one))
        .map((one) => ({
          id: one.id,
          file_name: one.fileName,
          begin_date: new Date(one.beginMs).toISOString(),
          end_date: new Date(one.endMs).toISOString(),
          // UTC with the offset of another zone, as observed (provider news 0.4).
          date_created: new Date(one.createdAt).toISOString().replace('Z', '-04:00'),
          created_from: 'manual',
        }))
        .reverse()
    })

    app.get<{ Params: { name: string } }>(`${base}/:name`, (request, reply) => {
      const seller = authenticate(ctx, request)
      const { name } = request.params
      // The provider's answer for an id.
      if (/^\d+$/.test(name)) throw new ApiError(403, { code: 'forbidden', message: 'forbidden' })
      const report = [...ctx.state.tables.reports.values()].find(
        (one) => one.userId === seller.id && one.kind === kind && one.fileName === name,
      )
      if (!report || !isMade(ctx, report)) throw noReport()
      const csv = reportCsv(ctx, report, paymentsOf(ctx, seller.id), report.config)
      return reply.type('text/csv; charset=utf-8').send(csv)
    })
  }

  // The shop's configuration of a kind of report in its panel, or none.
  app.put('/_sandbox/reports', (request) => {
    const { user_id: userId, kind, config } = isRecord(request.body) ? request.body : {}
    if (kind !== 'settlement' && kind !== 'release') throw badCall('kind must be one of both')
    if (!ctx.state.tables.sellers.has(String(userId))) throw new ControlError(404, 'no such user')
    if (config !== null && !isRecord(config)) throw badCall('config must be an object or null')
    const id = `${userId}:${kind}`
    const set = config as ReportConfig | null
    ctx.state.commit('report.configured', id, { reportConfigs: { [id]: set } })
    return { user_id: userId, kind, config }
  })
}

function configOf(ctx: Context, seller: Seller, kind: ReportKind): ReportConfig {
  const config = ctx.state.tables.reportConfigs.get(`${seller.id}:${kind}`)
  if (!config) throw apiError(404, 'not_found', 'There is no configuration')
  return config
}

function orderReport(ctx: Context, seller: Seller, kind: ReportKind, body: unknown): Report {
  const config = configOf(ctx, seller, kind)
  const fields = isRecord(body) ? body : {}
  const date = (name: string) => {
    const text = fields[name]
    if (typeof text !== 'string' || !dateShape.test(text)) {
      throw apiError(400, 'bad_request', `Invalid ${name}`)
    }
    return Date.parse(text)
  }
  const [beginMs, endMs] = [date('begin_date'), date('end_date')]
  if (endMs <= beginMs || endMs - beginMs > longestSpanMs) {
    throw apiError(400, 'bad_request', 'Invalid range of dates')
  }
  const id = newNumber(9)
  const report: Report = {
    id,
    userId: seller.id,
    kind,
    beginMs,
    endMs: endOfDay(endMs, config.display_timezone),
    fileName: `${config.file_name_prefix ?? kind}-${id}.csv`,
    createdAt: ctx.nowMs(),
    config,
  }
  ctx.state.commit('report.ordered', String(id), { reports: { [String(id)]: report } })
  return report
}

function isMade(ctx: Context, { createdAt }: Report): boolean {
  return ctx.nowMs() >= createdAt + makingMs
}

function noReport(): ApiError {
  return apiError(404, 'not_found', 'There is no such report')
}
