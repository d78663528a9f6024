import type { Reason } from '../../texts/reason.ts'
import type { Flow } from '../definition/schema.ts'
import { SourceError, type SourceRow } from '../types.ts'
import { csvRecords } from './file-csv.ts'
import { dbfRecords } from './file-dbf.ts'
import { decodeFile, trimmedText } from './file-encoding.ts'
import { fixedRecords } from './file-fixed.ts'
import { ndjsonRecords } from './file-ndjson.ts'
import type { FoundFile, OpenedFile, OpenFile } from './file-store.ts'
import { xlsxRecords } from './file-xlsx.ts'
import { JsonLimitError, parseJsonIncrementally } from './json-incremental.ts'
import { recordsOf, valueAtNames, withPlace } from './json-items.ts'

type FileForm = Pick<
  Extract<Flow['source'], { type: 'file' | 'sftp' }>,
  'format' | 'csv' | 'fixed' | 'xlsx' | 'dbf' | 'items'
> & {
  keyFields: readonly string[]
}

/**
 * Streams the records of one file, without the last one when `skipsLast`. The last record is yielded only after a check that
 * the file did not change: a file that is being written may end in a partial record. Throws SourceError with the file's name,
 * or rejects as reading does.
 */
export async function* recordsOfFile(
  file: OpenedFile,
  found: FoundFile,
  form: FileForm,
  { skipsLast }: { skipsLast: boolean },
): AsyncGenerator<SourceRow> {
  await file.checkSame()
  let pending: SourceRow | undefined
  const inFile = (what: Reason): Reason => ({
    code: 'IN_FILE',
    data: { path: found.path, what },
  })
  const toPlaced = withPlace(inFile)
  try {
    for await (const record of parsed(unchanged(file), found.size, form)) {
      if (pending) yield pending
      pending = toPlaced(record)
    }
  } catch (error) {
    if (error instanceof SourceError) throw new SourceError(inFile(error.why))
    throw error
  }
  await file.checkSame()
  if (pending && !skipsLast) yield pending
}

/** Checks the file after each read. A file rewritten in place could give records that mix old and new content. */
function unchanged(file: OpenedFile): OpenFile {
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
      const again = () => trimmedText(decodeFile(file, size, csv.encoding), csv.skipLines ?? 0)
      return csvRecords(again(), { ...csv, keyFields, again })
    }
    case 'fixed': {
      if (!fixed) throw new SourceError({ code: 'NEEDS_FIXED_COLUMNS' })
      return fixedRecords(
        trimmedText(decodeFile(file, size, fixed.encoding), fixed.skipLines),
        fixed,
      )
    }
    case 'xlsx':
      return xlsxRecords(file, size, xlsx ?? { sheet: 1, headerRow: 1 })
    case 'dbf':
      return dbfRecords(file, size, dbf ?? {})
    case 'ndjson':
      return ndjsonRecords(decodeFile(file, size, 'utf8'))
    case 'json':
      return jsonRecords(decodeFile(file, size, 'utf8'), items)
    default:
      return format satisfies never
  }
}

/** Reading JSON needs several times its size in memory. Larger sources use ndjson or csv, which stream. */
const maxJsonCharacters = 32 * 1024 * 1024

/** The records of a file that is one JSON document. Throws SourceError. */
async function* jsonRecords(
  text: AsyncIterable<string>,
  items: string | undefined,
): AsyncGenerator<SourceRow> {
  const pieces: string[] = []
  let length = 0
  for await (const piece of text) {
    length += piece.length
    if (length > maxJsonCharacters) {
      throw new SourceError({ code: 'JSON_TOO_LONG', data: { most: maxJsonCharacters } })
    }
    pieces.push(piece)
  }
  yield* recordsOf(valueAtNames(await parse(pieces.join('')), items), items)
}

async function parse(text: string): Promise<unknown> {
  try {
    return await parseJsonIncrementally(text)
  } catch (error) {
    if (error instanceof JsonLimitError) throw new SourceError(error.why)
    // The message of JSON.parse quotes the text, which may contain personal data.
    throw new SourceError({ code: text.trim() === '' ? 'EMPTY' : 'NOT_JSON' })
  }
}
