import { SourceError } from '../types.ts'
import { maxRecordCharacters } from './limits.ts'

/**
 * The lines of a text that comes in pieces, without their ends (LF, CRLF or CR). `before` is how many there were already, for
 * messages. Throws SourceError for one that is too long to be a record.
 */
export async function* linesOf(
  text: AsyncIterable<string>,
  before: number,
): AsyncGenerator<string> {
  let rest = ''
  let number = before + 1
  for await (const piece of text) {
    const held = rest + piece
    // A last CR may be half of a CRLF.
    const lines = held.split(/\r\n|\n|\r(?!$)/)
    rest = lines.pop() ?? ''
    for (const line of lines) {
      yield line
      number += 1
    }
    if (rest.length > maxRecordCharacters) {
      throw new SourceError(`has more than ${maxRecordCharacters} characters in line ${number}`)
    }
  }
  if (rest !== '') yield rest.replace(/\r$/, '')
}
