import { SourceError, type SourceRow } from '../types.ts'
import { JsonLimitError, parseJsonInTurns } from './json-in-turns.ts'
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
  yield* recordsOf(valueAt(await parse(pieces.join('')), items), items)
}

async function parse(text: string): Promise<unknown> {
  try {
    return await parseJsonInTurns(text)
  } catch (error) {
    if (error instanceof JsonLimitError) throw new SourceError(error.message)
    // What JSON.parse says quotes the text, which is somebody's data.
    throw new SourceError(text.trim() === '' ? 'is empty' : 'is not JSON')
  }
}
