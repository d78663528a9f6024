import { noRecord, SourceError, type SourceRow } from '../types.ts'
import { parseJsonInTurns } from './json-in-turns.ts'
import { isRecord, kindOf } from './json-items.ts'
import { inLastName } from './json-name.ts'
import { maxRecordCharacters } from './limits.ts'

/** A file that begins with more lines than that without an object holds something else. */
const mostBeforeFirst = 1_000

/**
 * The records of a file with one JSON object per line; a line of other JSON stands among them as a record that is refused.
 * Throws SourceError with the number of a line that is no JSON, as where the file is cut, and when no line is an object.
 */
export async function* ndjsonRecords(text: AsyncIterable<string>): AsyncGenerator<SourceRow> {
  let number = 0
  let hadRecords = false
  const before: string[] = []
  const noneIsObject = () => new SourceError(`has no line with an object; it ${before[0]}`)
  for await (const line of linesOf(text)) {
    number += 1
    if (line.trim() === '') continue
    const value = await parse(line, number)
    if (isRecord(value)) {
      hadRecords = true
      for (const reason of before.splice(0)) yield noRecord(reason)
      yield value
      continue
    }
    const reason = `has ${kindOf(value)} in line ${number}, not an object`
    if (hadRecords) yield noRecord(reason)
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
    const place = `line ${number}${inLastName(rest.join(''))}`
    throw new SourceError(`has more than ${maxRecordCharacters} characters in ${place}`)
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
    return await parseJsonInTurns(line)
  } catch {
    // What JSON.parse says quotes the text, which is somebody's data.
    throw new SourceError(`has no JSON in line ${number}`)
  }
}
