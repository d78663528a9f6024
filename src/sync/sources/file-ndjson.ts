import { SourceError, type SourceRow } from '../types.ts'
import { parseExactJson } from './exact-json.ts'
import { isRecord, kindOf } from './json-items.ts'

/** A file without line ends must not be taken into memory as one line. */
const maxLineCharacters = 8 * 1024 * 1024

/** The records of a file with one JSON object per line. Throws SourceError with the number of a line that is none. */
export async function* ndjsonRecords(text: AsyncIterable<string>): AsyncGenerator<SourceRow> {
  let number = 0
  for await (const line of linesOf(text)) {
    number += 1
    if (line.trim() === '') continue
    const value = parse(line, number)
    if (!isRecord(value))
      throw new SourceError(`has ${kindOf(value)} in line ${number}, not an object`)
    yield value
  }
}

async function* linesOf(text: AsyncIterable<string>): AsyncGenerator<string> {
  let rest: string[] = []
  let length = 0
  for await (const piece of text) {
    const lines = piece.split('\n')
    const last = lines.pop() ?? ''
    for (const line of lines) {
      yield rest.length === 0 ? line : rest.join('') + line
      rest = []
      length = 0
    }
    if (last === '') continue
    rest.push(last)
    length += last.length
    if (length > maxLineCharacters) {
      throw new SourceError(`has a line longer than ${maxLineCharacters} characters`)
    }
  }
  if (rest.length > 0) yield rest.join('')
}

function parse(line: string, number: number): unknown {
  try {
    return parseExactJson(line)
  } catch {
    // What JSON.parse says quotes the text, which is somebody's data.
    throw new SourceError(`has no JSON in line ${number}`)
  }
}
