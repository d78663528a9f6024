import { z } from 'zod'
import { download } from '../outbound/download.ts'
import { OutboundError } from '../outbound.ts'
import { type ProviderClient, segment } from './client.ts'
import { fromOutbound, ProviderError } from './provider-error.ts'
import type { Provider, ProviderSettings } from './types.ts'
import { MpId, MpNote } from './wire.ts'

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

const MpReportList = z.array(z.object({ file_name: MpNote, begin_date: MpNote, end_date: MpNote }))

const failedStates: ReadonlySet<string> = new Set(['error', 'failed', 'cancelled', 'deleted'])

/**
 * Settlement and release reports. From public sources; none of it was tried live. The configuration is one per account and the
 * shop's own: it is read, and there is no call here that changes it.
 */
export function createReports(
  client: ProviderClient,
  settings: ProviderSettings,
): Provider['reports'] {
  const base = (report: string) => `/v1/account/${report}_report`
  return {
    async config(token, report, options) {
      try {
        const config = await client.call({
          operation: 'report.config',
          method: 'GET',
          path: `${base(report)}/config`,
          token,
          schema: MpReportConfig,
          options,
        })
        return {
          columns: config.columns?.map(({ key }) => key.toUpperCase()) ?? null,
          zone: config.display_timezone ?? null,
        }
      } catch (error) {
        if (error instanceof ProviderError && error.status === 404) return undefined
        throw error
      }
    },
    async order(token, report, { from, to }, options) {
      const withoutMs = (date: Date) => date.toISOString().replace(/\.\d+/, '')
      const task = await client.call({
        operation: 'report.order',
        method: 'POST',
        path: base(report),
        token,
        body: { begin_date: withoutMs(from), end_date: withoutMs(to) },
        schema: z.object({ id: MpId }),
        options,
      })
      return { taskId: task.id }
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
      const csv = task.files?.find(({ type, name }) => /csv/i.test(`${type} ${name}`))
      const fileName = task.file_name ?? csv?.name ?? null
      return { word: task.status, fileName, isFailed: failedStates.has(task.status) }
    },
    async list(token, report, options) {
      const made = await client.call({
        operation: 'report.list',
        method: 'GET',
        path: `${base(report)}/list`,
        token,
        schema: MpReportList,
        options,
      })
      return made.flatMap(({ file_name: fileName, begin_date, end_date }) => {
        const [from, to] = [new Date(begin_date ?? ''), new Date(end_date ?? '')]
        const isWhole = fileName && !Number.isNaN(from.getTime()) && !Number.isNaN(to.getTime())
        return isWhole ? [{ fileName, from, to }] : []
      })
    },
    async *file(token, report, fileName, signal) {
      try {
        yield* download({
          url: `${settings.apiUrl.replace(/\/+$/, '')}${base(report)}/${segment(fileName)}`,
          headers: { 'user-agent': 'tillbridge', authorization: `Bearer ${token}` },
          timeoutMs: settings.timeoutMs,
          signal,
        })
      } catch (error) {
        throw error instanceof OutboundError ? fromOutbound(error) : error
      }
    },
  }
}
