import { SourceError } from '../types.ts'
import { maxRecordCharacters } from './record-limits.ts'

/**
 * Splits chunks of text into lines without their ends (LF, CRLF or CR). `before` is the number of earlier lines, for messages.
 * Throws SourceError for a line that is too long for a record.
 */
export async function* linesOf(
  text: AsyncIterable<string>,
  before: number,
): AsyncGenerator<string> {
  let rest = ''
  let number = before + 1
  for await (const piece of text) {
    const buffered = rest + piece
    // A CR at the end of a chunk may be the first half of a CRLF.
    const lines = buffered.split(/\r\n|\n|\r(?!$)/)
    rest = lines.pop() ?? ''
    for (const line of lines) {
      yield line
      number += 1
    }
    if (rest.length > maxRecordCharacters) {
      throw new SourceError({
        code: 'LINE_TOO_LONG',
        data: { most: maxRecordCharacters, line: number },
      })
    }
  }
  if (rest !== '') yield rest.replace(/\r$/, '')
}
