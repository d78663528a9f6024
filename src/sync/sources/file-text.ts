import { SourceError } from '../types.ts'
import { createDecoder, type FileEncoding } from './file-encoding.ts'
import type { OpenFile } from './file-store.ts'

/** A parser takes a chunk in one go. */
const chunkBytes = 16 * 1024
const utf8Mark = Buffer.from([0xef, 0xbb, 0xbf])

/**
 * The text of a file, in pieces, without a byte order mark. Throws SourceError for bytes that are not in the encoding:
 * replacement characters in names would be sent on as if they were right. `latin1` is read as Windows-1252, which is
 * what programs mean by it (they differ in €, curly quotes and dashes). No more is read than `size`, which the file had when
 * it was found: what the kernel makes up on reading, such as `/proc/self/environ`, has none.
 */
export async function* textOf(
  file: OpenFile,
  size: number,
  encoding: FileEncoding,
): AsyncGenerator<string> {
  const decode = createDecoder(encoding)
  const isOtherThanUtf8 = encoding !== 'utf8' && encoding !== 'utf16le'
  for (let position = 0; position < size; ) {
    const length = Math.min(chunkBytes, size - position)
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position)
    if (bytesRead === 0) break
    const bytes = buffer.subarray(0, bytesRead)
    if (position === 0 && isOtherThanUtf8 && bytes.subarray(0, 3).equals(utf8Mark)) {
      throw new SourceError(`begins with the mark of UTF-8, but its encoding is ${encoding}`)
    }
    position += bytesRead
    const text = decode(bytes)
    if (text !== '') yield text
  }
  const rest = decode()
  if (rest !== '') yield rest
}

const endOfFile = '\u001a'

/**
 * A text without the sign that DOS programs write at the end of a file (Ctrl-Z), and without its first lines. Throws
 * SourceError when something stands behind that sign.
 */
export async function* trimmedText(
  text: AsyncIterable<string>,
  skipLines: number,
): AsyncGenerator<string> {
  let hasEnded = false
  let toSkip = skipLines
  let carried = ''
  for await (const piece of text) {
    const at = piece.indexOf(endOfFile)
    const behind = hasEnded ? piece : at === -1 ? '' : piece.slice(at)
    if (behind.replaceAll(endOfFile, '').replaceAll('\0', '').trim() !== '') {
      throw new SourceError('has text behind the sign of its end (Ctrl-Z)')
    }
    if (hasEnded) continue
    hasEnded = at !== -1
    let kept = carried + (hasEnded ? piece.slice(0, at) : piece)
    // Half of a CRLF may come with the next piece.
    carried = toSkip > 0 && kept.endsWith('\r') ? '\r' : ''
    if (carried !== '') kept = kept.slice(0, -1)
    for (; toSkip > 0; toSkip -= 1) {
      const line = /\r\n|\r|\n/.exec(kept)
      kept = line ? kept.slice(line.index + line[0].length) : ''
      if (!line) break
    }
    if (kept !== '') yield kept
  }
  if (carried !== '' && toSkip === 0) yield carried
}
