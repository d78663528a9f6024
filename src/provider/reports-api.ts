import { z } from 'zod'
import { type ProviderClient, segment } from './client.ts'
import { dateFrom, MpId, MpNote } from './payload-fields.ts'
import { undefinedIfGone } from './provider-error.ts'
import type { Provider } from './provider-types.ts'

const MpReportConfig = z.object({
  columns: z
    .array(z.object({ key: z.string() }))
    .nullish()
    .catch(null),
  display_timezone: MpNote,
})

const MpReportTask = z.object({
  status: z.string(),
  file_name: MpNote,
  files: z
    .array(z.object({ type: MpNote, name: MpNote }))
    .nullish()
    .catch(null),
})

const MpReportEntry = z.object({
  file_name: MpNote,
  begin_date: MpNote,
  end_date: MpNote,
  date_created: MpNote,
  status: MpNote,
})

const failedStates: ReadonlySet<string> = new Set([
  'error',
  'failed',
  'cancelled',
  'canceled',
  'deleted',
])
/** The file does not exist yet, whatever else the answer says; `data-ready` has its data and no file (provider news 0.3). */
const openStates: ReadonlySet<string> = new Set(['pending', 'processing', 'data-ready'])
/** Made by the connection test of the provider's SFTP delivery: not a report (provider news 10). */
const connectionCheck = 'CONNECTION-CHECK-FILE.csv'

/**
 * Settlement and release reports, from public sources; not tried live. The configuration is one per account and belongs
 * to the shop: it is only read.
 */
export function createReports(client: ProviderClient): Provider['reports'] {
  return {
    config: (...given) => readConfig(client, ...given),
    async order(token, report, { from, to }, options) {
      let isCreated = true
      const withoutMs = (date: Date) => date.toISOString().replace(/\.\d+/, '')
      const task = await client.call({
        operation: 'report.order',
        method: 'POST',
        path: base(report),
        token,
        body: { begin_date: withoutMs(from), end_date: withoutMs(to) },
        schema: z.object({ id: MpId.nullish() }).nullish(),
        // 203 means received but not created, yet the answer may have an id (provider news 0.3).
        accept: (answer, status) => {
          isCreated = status !== 203
          return !isCreated || answer?.id != null
        },
        options,
      })
      return isCreated ? { taskId: String(task?.id) } : 'not_created'
    },
    async task(token, report, taskId, options) {
      const task = await client.call({
        operation: 'report.task',
        method: 'GET',
        path: `${base(report)}/task/${segment(taskId)}`,
        token,
        schema: MpReportTask,
        options,
      })
      const names = [task.file_name, ...(task.files ?? []).map(({ name }) => name)]
      const given = names.flatMap((name) => name ?? [])
      return {
        word: task.status,
        fileName: given.find(isReportFile) ?? null,
        otherFile: given[0] ?? null,
        isFailed: failedStates.has(task.status),
      }
    },
    async list(token, report, options) {
      const made = await client.call({
        operation: 'report.list',
        method: 'GET',
        path: `${base(report)}/list`,
        token,
        schema: z.array(z.unknown()),
        options,
      })
      return made.flatMap(reportFrom)
    },
    file: (token, report, fileName, signal) =>
      client.download({
        operation: 'report.task',
        path: `${base(report)}/${segment(fileName)}`,
        token,
        signal,
      }),
  }
}

const base = (report: string) => `/v1/account/${report}_report`

async function readConfig(
  client: ProviderClient,
  ...[token, report, options]: Parameters<Provider['reports']['config']>
): ReturnType<Provider['reports']['config']> {
  const config = await client
    .call({
      operation: 'report.config',
      method: 'GET',
      path: `${base(report)}/config`,
      token,
      schema: MpReportConfig,
      options,
    })
    .catch(undefinedIfGone)
  return (
    config && {
      columns: config.columns?.map(({ key }) => key.toUpperCase()) ?? null,
      zone: config.display_timezone ?? null,
    }
  )
}

/** A report that can be fetched; undefined for an entry that is null, deleted, not ready or no CSV. */
function reportFrom(
  raw: unknown,
): { fileName: string; from: Date; to: Date; madeAt: Date | null }[] {
  const entry = MpReportEntry.safeParse(raw)
  if (!entry.success) return []
  const { file_name: fileName, begin_date, end_date, date_created, status } = entry.data
  const isOut = failedStates.has(status ?? '') || openStates.has(status ?? '')
  const [from, to] = [dateFrom(begin_date), dateFrom(end_date)]
  if (isOut || !fileName || !isReportFile(fileName) || !from || !to) return []
  return [{ fileName, from, to, madeAt: createdAt(date_created) }]
}

function isReportFile(name: string): boolean {
  return /\.csv$/i.test(name) && name.toUpperCase() !== connectionCheck.toUpperCase()
}

/** The provider labels this time `-04:00` and writes UTC (provider news 0.4): the label is ignored. */
function createdAt(text: string | null | undefined): Date | null {
  const local = /^\d{4}-\d{2}-\d{2}T[\d:.]+/.exec(text ?? '')?.[0]
  return local === undefined ? null : dateFrom(`${local}Z`)
}
