import type { Flow } from '../definition/schema.ts'
import { SourceError, type SourceRow } from '../types.ts'
import { csvRecords } from './file-csv.ts'
import { dbfRecords } from './file-dbf.ts'
import { fixedRecords } from './file-fixed.ts'
import { jsonRecords } from './file-json.ts'
import { ndjsonRecords } from './file-ndjson.ts'
import type { FoundFile, HeldFile, OpenFile } from './file-store.ts'
import { textOf, trimmedText } from './file-text.ts'
import { xlsxRecords } from './file-xlsx.ts'
import { placed } from './json-items.ts'

type FileForm = Pick<
  Extract<Flow['source'], { type: 'file' | 'sftp' }>,
  'format' | 'csv' | 'fixed' | 'xlsx' | 'dbf' | 'items'
> & {
  keyFields: readonly string[]
}

/**
 * Streams the records of one file, without its last one when `leavesLast`. The last one is held back until it is certain that
 * the file is still the one that was found: of a file that is being written the last record may be half. Throws SourceError,
 * which names the file, or rejects as reading it does.
 */
export async function* recordsOfFile(
  file: HeldFile,
  found: FoundFile,
  form: FileForm,
  { leavesLast }: { leavesLast: boolean },
): AsyncGenerator<SourceRow> {
  await file.checkSame()
  let held: SourceRow | undefined
  try {
    for await (const record of parsed(unchanged(file), found.size, form)) {
      if (held) yield held
      held = placed(record, found.path)
    }
  } catch (error) {
    if (error instanceof SourceError) throw new SourceError(`${found.path} ${error.message}`)
    throw error
  }
  await file.checkSame()
  if (held && !leavesLast) yield held
}

/** What is written anew in place would otherwise give records that begin in the old content and end in the new. */
function unchanged(file: HeldFile): OpenFile {
  return {
    async read(buffer, offset, length, position) {
      const read = await file.read(buffer, offset, length, position)
      await file.checkSame()
      return read
    },
  }
}

function parsed(
  file: OpenFile,
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
