import { randomUUID } from 'node:crypto'
import type { Db, Trx } from '../../db/database.ts'
import { type Backoff, backoffMs } from '../../domain/backoff.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { AppError, invalid } from '../../errors/app-error.ts'
import { type CallOptions, ProviderError } from '../../provider/provider.ts'
import {
  findFetch,
  listDueFetches,
  moveFetch,
  planFetch,
  type SettlementFetchRow,
} from '../../repositories/settlements/settlement-fetches.ts'
import { recordFailure, recordSuccess } from '../audit/activity.ts'
import { withAccess } from '../connection/access.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { serviceActor } from '../request-context.ts'
import { importReportStream } from './import-report.ts'
import { missingColumns, ReportError, type ReportKind } from './parse-report.ts'
import { offsetOfZone, reportZone } from './report-amounts.ts'

const dayMs = 86_400_000
/** The provider makes reports of up to 60 days, about three months back, and complete up to yesterday. */
const longestDays = 60
const callWithinMs = 15_000
const nextCheckMs = 30_000
/** After a request without an answer: by then its report is in the list, and is not requested again. */
const untilMadeMs = 10 * 60_000
const pauses: Backoff = { firstMs: 60_000, longestMs: 3_600_000 }
/** About half a day with the growing waits. */
const mostFailures = 16
const fetchesAtOnce = 10

/** Requests a report of whole days of the provider (GMT-4); an equal request that is open is returned again. */
export async function askForReport(
  deps: PaymentDeps,
  client: ClientName,
  wanted: { report: ReportKind; fromDay: string; toDay: string },
  actor: Actor,
): Promise<{ fetch: SettlementFetchRow; isNew: boolean }> {
  const now = deps.now()
  const { from, to } = spanOf(wanted.fromDay, wanted.toDay)
  if (to <= from) throw invalid('to', { code: 'TO_BEFORE_FROM' })
  if (to.getTime() - from.getTime() > longestDays * dayMs) {
    throw invalid('to', { code: 'SPAN_TOO_LONG', data: { days: longestDays } })
  }
  if (to > now) throw invalid('to', { code: 'TO_NOT_OVER' })
  return deps.database.transaction(async (trx) => {
    const found = await planFetch(trx, {
      id: randomUUID(),
      client,
      report: wanted.report,
      from_day: wanted.fromDay,
      to_day: wanted.toDay,
      state: 'waiting',
      next_look_at: now,
      created_at: now,
    })
    if (found.isNew) {
      await recordSuccess(deps, trx, {
        ...entryOf(found.fetch, actor),
        action: 'settlement.fetch_wanted',
      })
    }
    return found
  })
}

/** @throws NOT_FOUND, also for another client's */
export async function readFetch(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
): Promise<SettlementFetchRow> {
  const fetch = await findFetch(deps.database.db, client, id)
  if (!fetch) throw new AppError('NOT_FOUND', { message: 'There is no such fetch' })
  return fetch
}

/** Continues every due fetch. The caller must have the lease. */
export async function workFetches(deps: PaymentDeps, signal: AbortSignal): Promise<void> {
  for (const fetch of await listDueFetches(deps.database.db, deps.now(), fetchesAtOnce)) {
    if (signal.aborted) return
    const job = { fetch }
    await goOn(deps, job, signal)
      .catch((error) => postpone(deps, job, error, signal))
      .catch((error: unknown) => {
        if (!(error instanceof FetchMovedError)) throw error
        deps.log.info({ client: fetch.client, fetchId: fetch.id }, error.message)
      })
  }
}

/** A fetch as this process last moved it. */
type Job = { fetch: SettlementFetchRow }

/** Another process continues the fetch; this process has lost its lease. */
class FetchMovedError extends Error {
  override name = 'FetchMovedError'
  override message = 'another process goes on with this fetch'
}

/**
 * Writes the next step.
 *
 * @throws FetchMovedError when another process has moved the fetch since
 */
async function move(db: Db | Trx, job: Job, set: Parameters<typeof moveFetch>[2]): Promise<void> {
  const moved = await moveFetch(db, job.fetch, set)
  if (!moved) throw new FetchMovedError()
  job.fetch = moved
}

/** What a step of a fetch needs of the provider. */
type Step = {
  token: string
  options: () => CallOptions
  /** Requests the report of these days; an end of the fetch when the provider answers that it makes none. */
  order: () => Promise<string>
}

async function goOn(deps: PaymentDeps, job: Job, signal: AbortSignal): Promise<void> {
  const { report, client, from_day, to_day } = job.fetch
  const { reports } = deps.provider
  await withAccess(deps, client, async ({ token }) => {
    const options = () => ({ signal, untilMs: deps.stopwatch() + callWithinMs, maxAttempts: 1 })
    const order = async () => {
      const ordered = await reports.order(token, report, spanOf(from_day, to_day), options())
      if (ordered !== 'not_created') return ordered.taskId
      throw new FetchRefusedError(
        'REPORT_NOT_CREATED',
        'The provider received the order and created no report (status 203): it does not make one of these days',
      )
    }
    const step = { token, options, order }
    const zone = await readZone(deps, job, step)
    if (job.fetch.task_id === null && job.fetch.file_name === null) {
      await orderUnlessMade(deps, job, step)
    }
    const fileName = job.fetch.file_name ?? (await readTask(deps, job, step))
    if (fileName !== null) await importFile(deps, job, step, { fileName, zone, signal })
  })
}

/** The time zone of the shop's reports. */
async function readZone(
  { provider }: PaymentDeps,
  { fetch: { report } }: Job,
  { token, options }: Step,
): Promise<string> {
  const config = await provider.reports.config(token, report, options())
  if (!config) {
    throw new FetchRefusedError(
      'REPORT_NOT_CONFIGURED',
      'The shop has no configuration for this report: it makes one in the provider’s panel',
    )
  }
  const missing = config.columns ? missingColumns(report, config.columns) : []
  if (missing.length > 0) {
    throw new FetchRefusedError(
      'REPORT_COLUMNS_MISSING',
      `The shop’s own report lacks columns, which it adds in the provider’s panel: ${missing.join(', ')}`,
    )
  }
  return config.zone ?? ''
}

/** The number of reports is limited, and a request whose answer was lost has made one. */
async function orderUnlessMade(deps: PaymentDeps, job: Job, step: Step): Promise<void> {
  const { report, from_day, to_day } = job.fetch
  const span = spanOf(from_day, to_day)
  const made = await deps.provider.reports.list(step.token, report, step.options())
  const fitting = made.find(
    ({ from, to, madeAt }) =>
      // A report made before the end of its last day lacks later movements.
      from <= span.from && to >= span.to && madeAt !== null && madeAt > span.to,
  )
  const file_name = fitting?.fileName ?? null
  const task_id = file_name === null ? await step.order() : null
  await move(deps.database.db, job, { state: 'ordered', task_id, file_name })
}

/** The file of the requested report; null while the provider makes it. */
async function readTask(
  deps: PaymentDeps,
  job: Job,
  { token, options }: Step,
): Promise<string | null> {
  const { report, task_id: taskId } = job.fetch
  const task = await deps.provider.reports.task(token, report, String(taskId), options())
  if (task.isFailed) {
    throw new FetchRefusedError(
      'REPORT_NOT_CREATED',
      `The provider has not made the report: ${task.word}`,
    )
  }
  const { fileName } = task
  if (fileName === null && task.otherFile !== null && task.word !== 'pending') {
    throw new FetchRefusedError(
      'REPORT_NOT_CSV',
      `The provider made the report as ${task.otherFile.slice(0, 100)}: only CSV can be read, so set the format to CSV in its panel`,
    )
  }
  const { db } = deps.database
  if (fileName === null) await move(db, job, { next_look_at: nextCheckAt(deps), failures: 0 })
  else await move(db, job, { file_name: fileName })
  return fileName
}

async function importFile(
  deps: PaymentDeps,
  job: Job,
  { token, order }: Step,
  { fileName, zone, signal }: { fileName: string; zone: string; signal: AbortSignal },
): Promise<void> {
  const { fetch } = job
  const { report, client } = fetch
  const rows = deps.provider.reports.file(token, report, fileName, signal)
  try {
    await importReportStream(deps, client, rows, {
      origin: 'fetched',
      name: fileName,
      offset: offsetOfZone(zone),
      async along(trx, { file, rows, added }) {
        await move(trx, job, {
          state: 'taken_in',
          file_id: file.id,
          next_look_at: null,
          ended_at: deps.now(),
        })
        await recordSuccess(deps, trx, {
          ...entryOf(fetch, serviceActor(deps.now())),
          action: 'settlement.taken_in',
          metadata: { name: fileName, report, rows, added },
        })
      },
    })
  } catch (error) {
    // A listed file may be deleted since: then another one is requested.
    const isListed = fetch.task_id === null
    if (!isListed || !(error instanceof ProviderError) || error.status !== 404) throw error
    const task_id = await order()
    const next_look_at = nextCheckAt(deps)
    await move(deps.database.db, job, { task_id, file_name: null, next_look_at })
  }
}

function nextCheckAt({ now }: Pick<PaymentDeps, 'now'>): Date {
  return new Date(now().getTime() + nextCheckMs)
}

async function postpone(
  deps: PaymentDeps,
  job: Job,
  error: unknown,
  signal: AbortSignal,
): Promise<void> {
  const { fetch } = job
  if (error instanceof FetchMovedError) throw error
  if (signal.aborted) return
  if (error instanceof FetchRefusedError) return refuse(deps, job, error.code, error.message)
  if (error instanceof ReportError) return refuse(deps, job, 'REPORT_UNREADABLE', error.message)
  const isRefusal = error instanceof ProviderError && error.kind === 'refused'
  if (isRefusal) {
    const code = error.providerCode ?? `status ${error.status}`
    return refuse(deps, job, 'PROVIDER_REJECTED', `The provider refuses the report: ${code}`)
  }
  const failures = fetch.failures + 1
  if (failures >= mostFailures) {
    return refuse(deps, job, 'PROVIDER_TIMEOUT', 'The provider could not be asked for half a day')
  }
  const { retryAfterSeconds = null, effect } = error as Partial<ProviderError>
  const waitMs = Math.max(
    (retryAfterSeconds ?? 0) * 1000,
    effect === 'unknown' ? untilMadeMs : 0,
    backoffMs(failures, pauses),
  )
  deps.log.warn({ client: fetch.client, err: error }, 'report not fetched yet')
  const next_look_at = new Date(deps.now().getTime() + waitMs)
  await move(deps.database.db, job, { failures, next_look_at })
}

/** Why a report was not fetched, where it is no error of a call to the provider. */
export const reportRefusals = [
  'REPORT_NOT_CONFIGURED',
  'REPORT_COLUMNS_MISSING',
  'REPORT_NOT_CREATED',
  'REPORT_NOT_CSV',
  'REPORT_UNREADABLE',
] as const

type ReportRefusal = (typeof reportRefusals)[number] | 'PROVIDER_REJECTED' | 'PROVIDER_TIMEOUT'

/** The fetch ends without a report. */
class FetchRefusedError extends Error {
  override name = 'FetchRefusedError'
  readonly code: ReportRefusal

  constructor(code: ReportRefusal, reason: string) {
    super(reason)
    this.code = code
  }
}

/** Ends the fetch without a report. Pages translate the code, which begins the message of the audit entry. */
async function refuse(
  deps: PaymentDeps,
  job: Job,
  code: ReportRefusal,
  reason: string,
): Promise<void> {
  await deps.database.transaction(async (trx) => {
    await move(trx, job, {
      state: 'refused',
      reason,
      next_look_at: null,
      ended_at: deps.now(),
    })
    const entry = {
      ...entryOf(job.fetch, serviceActor(deps.now())),
      action: 'settlement.taken_in',
    }
    await recordFailure(deps, trx, entry, `${code}: ${reason}`)
  })
}

function entryOf(fetch: SettlementFetchRow, actor: Actor) {
  const { client, id, report, from_day, to_day } = fetch
  return {
    client,
    actor,
    resourceId: id,
    metadata: { report, from: from_day, to: to_day },
  }
}

/** From the beginning of the first day to the end of the last; the provider extends the end to that of the local day. */
function spanOf(fromDay: string, toDay: string): { from: Date; to: Date } {
  return {
    from: new Date(`${fromDay}T00:00:00${reportZone}`),
    to: new Date(`${toDay}T23:59:59${reportZone}`),
  }
}
