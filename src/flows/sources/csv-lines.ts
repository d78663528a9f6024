import { SourceError } from '../types.ts'
import { maxRecordCharacters } from './limits.ts'

/**
 * Passes CSV text on and throws SourceError for a line that is too long. The parser limits the characters in cells, so a line
 * of separators alone would have no limit. The error names the line and its longest column; `columnAt` gives the column names
 * known so far.
 */
export async function* withoutLongLines(
  text: AsyncIterable<string>,
  delimiter: string,
  columnAt: (index: number) => string | undefined,
): AsyncGenerator<string> {
  let line: string[] = []
  let length = 0
  let number = 1
  for await (const piece of text) {
    const first = piece.search(/[\r\n]/)
    const more = first === -1 ? piece.length : first
    length += more
    line.push(first === -1 ? piece : piece.slice(0, first))
    if (length > maxRecordCharacters) {
      const column = columnAt(longestCell(line.join(''), delimiter))
      const data = { most: maxRecordCharacters, line: number, column }
      throw new SourceError({ code: 'CSV_LINE_TOO_LONG', data })
    }
    if (first !== -1) {
      const last = Math.max(piece.lastIndexOf('\n'), piece.lastIndexOf('\r'))
      line = [piece.slice(last + 1)]
      length = piece.length - last - 1
      number += countOf(piece, piece.includes('\n') ? '\n' : '\r')
    }
    yield piece
  }
}

function countOf(text: string, character: string): number {
  let count = 0
  for (let at = text.indexOf(character); at !== -1; at = text.indexOf(character, at + 1)) count += 1
  return count
}

/** Approximate, for a message: a cell is quoted when it begins with a quote. */
function longestCell(line: string, delimiter: string): number {
  let longest = 0
  let most = -1
  let index = 0
  for (let from = 0; from <= line.length; index += 1) {
    const closing = line[from] === '"' ? line.indexOf(`"${delimiter}`, from + 1) : from
    const end = closing === -1 ? -1 : line.indexOf(delimiter, closing)
    const until = end === -1 ? line.length : end
    if (until - from > most) [longest, most] = [index, until - from]
    from = until + delimiter.length
  }
  return longest
}
