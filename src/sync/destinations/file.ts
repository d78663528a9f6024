import { resolve } from 'node:path'
import { dayIn } from '../../domain/time-zone.ts'
import { GuardedFileError } from '../../files/guarded-file.ts'
import type { DeliveryJob, DeliveryResult, Destination } from '../types.ts'
import { createAppender } from './file-appender.ts'
import { beginsNdjson, csvRow, firstLineOf, ndjsonLine, recordOf } from './file-lines.ts'
import { postponed, refused, withheld } from './result.ts'

/** Lines that one write takes; their items are in memory. */
const mostLines = 500

export type FileSettings = {
  /** Path of the file, relative to `baseDir`; `{date}` becomes the day of the delivery, as 2026-11-21. */
  path: string
  format: 'ndjson' | 'csv'
  baseDir: string
  /** IANA name of the zone whose day `{date}` is. */
  timezone: string
  now: () => Date
}

/**
 * Appends a line per delivery, many by one write, and answers once they are on the disk. At least once: after a crash between the write and its
 * record, the same line comes again under the same `_key`. Lines carry `_key` (of flow, destination, item and change),
 * `_kind` (upsert or delete) and `_pk` beside the mapped fields. One process at a time may write a file.
 *
 * CSV: the first item gives the columns; an item with other fields is refused, since its values would have no place.
 *
 * @throws Error when the path leaves its folder or holds another placeholder than `{date}`.
 */
export function openFileDestination(settings: FileSettings): Destination {
  const pathOf = pathMaker(settings)
  const isCsv = settings.format === 'csv'
  // Of a CSV file, csvRow has seen by its first line that it is ours.
  const appender = createAppender(
    isCsv ? { end: '\r\n', isOurs: () => true } : { end: '\n', isOurs: beginsNdjson },
  )

  /** The lines of jobs that may be written, in their order, with what becomes of the others. */
  const linesOf = async (jobs: readonly DeliveryJob[], path: string) => {
    let first = isCsv ? await appender.firstLine(path) : undefined
    let text = ''
    const results = jobs.map((job): DeliveryResult => {
      const record = recordOf(job)
      if ('problem' in record) return refused(record.problem)
      const made = isCsv ? csvRow(record.fields, first) : { text: ndjsonLine(record.fields) }
      if ('problem' in made) return refused(made.problem)
      if (!job.mayStart()) return withheld()
      text += made.text
      // What follows has the columns that this one has given to a new file.
      if (isCsv && !first?.isComplete) first = firstLineOf(made.text)
      return { ok: true }
    })
    return { text, results }
  }

  /** One write, and one wait for the disk, for all of them. */
  const write = async (jobs: readonly DeliveryJob[]): Promise<readonly DeliveryResult[]> => {
    const path = pathOf(settings.now())
    try {
      return await appender.inTurn(path, async () => {
        const { text, results } = await linesOf(jobs, path)
        if (text !== '') await appender.append(path, text)
        return results
      })
    } catch (error) {
      // Whatever is wrong with a disk or a folder is wrong for every item, and somebody can put it right.
      const said =
        error instanceof GuardedFileError ? `it ${error.message}` : codeOfSystemError(error)
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
    close: () => appender.idle(),
  }
}

function pathMaker(settings: FileSettings): (at: Date) => string {
  const { path, baseDir, timezone } = settings
  if (/\{(?!date\})|(?<!\{date)\}/.test(path)) {
    throw new Error(`path: only {date} can stand in the name of a file, got ${path}`)
  }
  // An absolute path is the operator's own choice; one that climbs is a slip.
  if (path.split(/[\\/]/).includes('..') || path.includes('\0')) {
    throw new Error('path: must stay inside its folder, without ..')
  }
  return (at) => resolve(baseDir, path.replaceAll('{date}', dayIn(timezone, at)))
}

function codeOfSystemError(error: unknown): string | undefined {
  const isSystemError = error instanceof Error && 'syscall' in error && 'code' in error
  return isSystemError && typeof error.code === 'string' ? error.code : undefined
}
