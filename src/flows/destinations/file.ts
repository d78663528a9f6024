import { resolve } from 'node:path'
import { dayIn } from '../../domain/time-zone.ts'
import type { Fence } from '../../files/fence.ts'
import { GuardedFileError } from '../../files/read-regular-file.ts'
import { createKeyedQueue } from '../../jobs/keyed-queue.ts'
import type { TextValue } from '../../texts/texts.ts'
import type { DeliveryJob, DeliveryResult, Destination } from '../types.ts'
import { postponed, refused, withheld } from './delivery-result.ts'
import { appendLines, readFirstLine } from './file-appender.ts'
import { beginsNdjson, csvRow, firstLineOf, ndjsonLine, recordOf } from './file-lines.ts'

/** Maximum lines of one write; their items are in memory. */
const mostLines = 500

export type FileSettings = {
  /** Path of the file. `{date}` is the day of the delivery, as 2026-11-21. */
  path: string
  /** Where the path may lead. */
  fence: Fence
  format: 'ndjson' | 'csv'
  /** IANA time zone of the day in `{date}`. */
  timezone: string
  now: () => Date
}

/**
 * Appends one line per delivery, several in one write, and confirms them after the disk has. Delivery is at least once: after
 * a crash between the write and its record, the same line appears again with the same `_key`.
 *
 * A line has `_key` (of flow, destination, item and change), `_kind` (upsert or delete) and `_pk` beside the mapped fields.
 * Only one process at a time may write a file. In CSV the first item determines the columns; an item with other fields is
 * refused.
 */
export function openFileDestination(settings: FileSettings): Destination {
  const { timezone, now, fence } = settings
  const isCsv = settings.format === 'csv'
  // For CSV, csvRow has already checked the first line.
  const lines = isCsv ? { end: '\r\n', isOurs: () => true } : { end: '\n', isOurs: beginsNdjson }

  const writes = createKeyedQueue()

  /** Builds the lines of the jobs in order, and the results of jobs that have no line. */
  const linesOf = async (jobs: readonly DeliveryJob[], path: string) => {
    let first = isCsv ? await readFirstLine(path, lines.end, fence) : undefined
    let text = ''
    const results = jobs.map((job): DeliveryResult => {
      const record = recordOf(job)
      if ('problem' in record) return refused(record.problem)
      const made = isCsv ? csvRow(record.fields, first) : { text: ndjsonLine(record.fields) }
      if ('problem' in made) return refused(made.problem)
      if (!job.mayStart()) return withheld()
      text += made.text
      // The first row of a new file determines the columns of the next rows.
      if (isCsv && !first?.isComplete) first = firstLineOf(made.text)
      return { ok: true }
    })
    return { text, results }
  }

  /** Writes all lines with one write and one wait for the disk. */
  const write = async (jobs: readonly DeliveryJob[]): Promise<readonly DeliveryResult[]> => {
    const path = resolve(settings.path.replaceAll('{date}', dayIn(timezone, now())))
    try {
      return await writes.run(path, async () => {
        const { text, results } = await linesOf(jobs, path)
        if (text !== '') await appendLines(path, text, lines, fence)
        return results
      })
    } catch (error) {
      // A failure of a disk or folder affects every item, and an operator can repair it.
      const said: TextValue | undefined =
        error instanceof GuardedFileError
          ? { code: 'IT', data: { what: error.why } }
          : codeOfSystemError(error)
      if (said === undefined) throw error
      const failed = postponed({ code: 'FILE_NOT_WRITABLE', data: { said } }, { outage: true })
      return jobs.map(() => failed)
    }
  }

  return {
    deliver: async (job) => (await write([job]))[0] ?? withheld(),
    batches: { most: () => mostLines, deliver: (jobs) => write(jobs) },
    refusalOf(job) {
      const record = recordOf(job)
      return 'problem' in record ? record.problem : undefined
    },
    close: writes.idle,
  }
}

function codeOfSystemError(error: unknown): string | undefined {
  const isSystemError = error instanceof Error && 'syscall' in error && 'code' in error
  return isSystemError && typeof error.code === 'string' ? error.code : undefined
}
