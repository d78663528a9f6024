import { isRecord } from '../../domain/json.ts'
import { kindOf, type Reason } from '../../texts/reason.ts'
import { invalidRecord, SourceError, type SourceRow } from '../types.ts'
import { parseJsonIncrementally } from './json-incremental.ts'
import { maxRecordCharacters } from './record-limits.ts'

/** A file that starts with this many lines without an object is not a list of records. */
const mostBeforeFirst = 1_000

/**
 * The records of a file with one JSON object per line. A line with other JSON yields an invalid record. Throws SourceError
 * with the number of a line that is not JSON, as in a truncated file, and when no line is an object.
 */
export async function* ndjsonRecords(text: AsyncIterable<string>): AsyncGenerator<SourceRow> {
  let number = 0
  let hadRecords = false
  const before: Reason[] = []
  const noneIsObject = () =>
    new SourceError({ code: 'NO_LINE_OBJECT', data: { what: before.slice(0, 1) } })
  for await (const line of linesOf(text)) {
    number += 1
    if (line.trim() === '') continue
    const value = await parse(line, number)
    if (isRecord(value)) {
      hadRecords = true
      for (const reason of before.splice(0)) yield invalidRecord(reason)
      yield value
      continue
    }
    const data = { kind: kindOf(value), line: number }
    const reason: Reason = { code: 'LINE_NO_OBJECT', data }
    if (hadRecords) yield invalidRecord(reason)
    else if (before.push(reason) > mostBeforeFirst) throw noneIsObject()
  }
  if (before.length > 0) throw noneIsObject()
}

async function* linesOf(text: AsyncIterable<string>): AsyncGenerator<string> {
  let rest: string[] = []
  let length = 0
  let number = 1
  const take = (part: string) => {
    rest.push(part)
    length += part.length
    if (length <= maxRecordCharacters) return
    const data = { most: maxRecordCharacters, line: number, field: lastName(rest.join('')) }
    throw new SourceError({ code: 'LINE_TOO_LONG', data })
  }
  for await (const piece of text) {
    const lines = piece.split('\n')
    const last = lines.pop() ?? ''
    for (const line of lines) {
      take(line)
      yield rest.length === 1 ? line : rest.join('')
      rest = []
      length = 0
      number += 1
    }
    if (last !== '') take(last)
  }
  if (rest.length > 0) yield rest.join('')
}

async function parse(line: string, number: number): Promise<unknown> {
  try {
    return await parseJsonIncrementally(line)
  } catch {
    // The message of JSON.parse quotes the text, which may contain personal data.
    throw new SourceError({ code: 'LINE_NO_JSON', data: { line: number } })
  }
}

const longestShown = 128

/**
 * The last name before a value in a piece of JSON, for messages: `"photo"`; undefined when there is none. Escaped quotes
 * belong to a text that itself contains JSON.
 */
function lastName(text: string): string | undefined {
  for (let end = text.lastIndexOf('":'); end > 0; end = text.lastIndexOf('":', end - 1)) {
    const start = text.lastIndexOf('"', end - 1)
    if (start === -1) return undefined
    const isText = text[end - 1] === '\\' || text[start - 1] === '\\'
    if (!isText) return JSON.stringify(text.slice(start + 1, end).slice(0, longestShown))
  }
  return undefined
}
