import { SourceError, type SourceRow } from '../types.ts'
import { JsonLimitError, parseJsonIncrementally } from './json-incremental.ts'
import { recordsOf, valueAt } from './json-items.ts'

/** Reading JSON needs several times its size in memory. Larger sources use ndjson or csv, which stream. */
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
      throw new SourceError({ code: 'JSON_TOO_LONG', data: { most: maxJsonCharacters } })
    }
    pieces.push(piece)
  }
  yield* recordsOf(valueAt(await parse(pieces.join('')), items), items)
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
