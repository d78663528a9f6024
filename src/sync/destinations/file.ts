import { resolve } from 'node:path'
import { dayIn } from '../../domain/time-zone.ts'
import { GuardedFileError } from '../../files/guarded-file.ts'
import type { DeliveryJob, DeliveryResult, Destination } from '../types.ts'
import { createAppender } from './file-appender.ts'
import { beginsNdjson, csvRow, ndjsonLine, recordOf } from './file-lines.ts'
import { postponed, refused, withheld } from './result.ts'

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
 * Appends a line per delivery and answers once it is on the disk. At least once: after a crash between the write and its
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

  const line = async (job: DeliveryJob, path: string) => {
    const record = recordOf(job)
    if ('problem' in record) return record
    if (!isCsv) return { text: ndjsonLine(record.fields) }
    return csvRow(record.fields, await appender.firstLine(path))
  }

  return {
    deliver: async (job): Promise<DeliveryResult> => {
      const path = pathOf(settings.now())
      try {
        return await appender.inTurn(path, async () => {
          const made = await line(job, path)
          if ('problem' in made) return refused(made.problem)
          if (!job.mayStart()) return withheld()
          await appender.append(path, made.text)
          return { ok: true }
        })
      } catch (error) {
        if (error instanceof GuardedFileError) {
          return notWritable(`it ${error.message}`)
        }
        const code = codeOfSystemError(error)
        if (code === undefined) throw error
        // Whatever is wrong with a disk or a folder is wrong for every item, and somebody can put it right.
        return notWritable(code)
      }
    },
    refusalOf(job) {
      const record = recordOf(job)
      return 'problem' in record ? record.problem : undefined
    },
    close: () => appender.idle(),
  }
}

function notWritable(said: string): DeliveryResult {
  return postponed({ code: 'FILE_NOT_WRITABLE', data: { said } }, { outage: true })
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
