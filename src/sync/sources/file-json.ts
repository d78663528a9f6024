import { SourceError, type SourceRow } from '../types.ts'
import { parseExactJson } from './exact-json.ts'
import { recordsOf, valueAt } from './json-items.ts'

/** JSON is held in memory several times over while it is read; larger sources write ndjson or csv, which stream. */
export const maxJsonCharacters = 32 * 1024 * 1024

/** The records of a file that is one JSON document. Throws SourceError. */
export async function* jsonRecords(
  text: AsyncIterable<string>,
  items: string | undefined,
): AsyncGenerator<SourceRow> {
  const pieces: string[] = []
  let length = 0
  for await (const piece of text) {
    length += piece.length
    if (length > maxJsonCharacters) {
      throw new SourceError(
        `is longer than ${maxJsonCharacters} characters, the most for format json; ndjson has no limit`,
      )
    }
    pieces.push(piece)
  }
  yield* recordsOf(valueAt(parse(pieces.join('')), items), items)
}

function parse(text: string): unknown {
  try {
    return parseExactJson(text)
  } catch {
    // What JSON.parse says quotes the text, which is somebody's data.
    throw new SourceError(text.trim() === '' ? 'is empty' : 'is not JSON')
  }
}
