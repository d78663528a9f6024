import { constants } from 'node:fs'
import { type FileHandle, lstat, open } from 'node:fs/promises'
import type { Flow } from '../definition/schema.ts'
import { SourceError, type SourceRow } from '../types.ts'
import { csvRecords } from './file-csv.ts'
import { dbfRecords } from './file-dbf.ts'
import { fixedRecords } from './file-fixed.ts'
import { jsonRecords } from './file-json.ts'
import { type FoundFile, isSameFile } from './file-list.ts'
import { ndjsonRecords } from './file-ndjson.ts'
import { textOf, trimmedText } from './file-text.ts'
import { xlsxRecords } from './file-xlsx.ts'

type FileForm = Pick<
  Extract<Flow['source'], { type: 'file' }>,
  'format' | 'csv' | 'fixed' | 'xlsx' | 'dbf' | 'items'
> & {
  keyFields: readonly string[]
}

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants

/**
 * Streams the records of one file, without its last one when `leavesLast`. The last one is held back until it is certain that the file is still the one that was
 * found: of a file that is being written the last record may be half. Throws SourceError, which names the file, or the
 * errors of the operating system.
 */
export async function* recordsOfFile(
  found: FoundFile,
  form: FileForm,
  { leavesLast }: { leavesLast: boolean },
): AsyncGenerator<SourceRow> {
  const file = await open(found.path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    await checkSame(file, found)
    let held: SourceRow | undefined
    for await (const record of parsed(file, Number(found.stats.size), form)) {
      if (held) yield held
      held = record
    }
    await checkSame(file, found)
    if (held && !leavesLast) yield held
  } catch (error) {
    if (error instanceof SourceError) throw new SourceError(`${found.path} ${error.message}`)
    throw error
  } finally {
    await file.close()
  }
}

function parsed(
  file: FileHandle,
  size: number,
  { format, csv, fixed, xlsx, dbf, items, keyFields }: FileForm,
): AsyncGenerator<SourceRow> {
  switch (format) {
    case 'csv': {
      const text = trimmedText(textOf(file, size, csv.encoding), csv.skipLines ?? 0)
      return csvRecords(text, { ...csv, keyFields })
    }
    case 'fixed': {
      if (!fixed) throw new SourceError('needs fixed.columns')
      return fixedRecords(trimmedText(textOf(file, size, fixed.encoding), fixed.skipLines), fixed)
    }
    case 'xlsx':
      return xlsxRecords(file, size, xlsx ?? { sheet: 1, headerRow: 1 })
    case 'dbf':
      return dbfRecords(file, size, dbf ?? {})
    case 'ndjson':
      return ndjsonRecords(textOf(file, size, 'utf8'))
    case 'json':
      return jsonRecords(textOf(file, size, 'utf8'), items)
    default:
      return format satisfies never
  }
}

/** Neither changed in place nor replaced by another of its name. */
async function checkSame(file: FileHandle, { path, stats }: FoundFile): Promise<void> {
  const [opened, named] = [await file.stat({ bigint: true }), await lstat(path, { bigint: true })]
  if (isSameFile(opened, stats) && isSameFile(named, stats)) return
  throw new SourceError('changed while it was read; it is read again by the next poll')
}
