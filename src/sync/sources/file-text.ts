import { SourceError } from '../types.ts'
import { createDecoder, type FileEncoding } from './file-encoding.ts'
import type { OpenFile } from './file-store.ts'

/** A parser takes a chunk in one go. */
const chunkBytes = 16 * 1024
/** Byte order marks: what a file begins with says how it is written, whatever its definition says. */
const marks: readonly { encoding: FileEncoding; bytes: Buffer }[] = [
  { encoding: 'utf8', bytes: Buffer.from([0xef, 0xbb, 0xbf]) },
  { encoding: 'utf16le', bytes: Buffer.from([0xff, 0xfe]) },
  { encoding: 'utf16be', bytes: Buffer.from([0xfe, 0xff]) },
]
const wide: readonly FileEncoding[] = ['utf16le', 'utf16be']

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
  let decode = createDecoder(encoding)
  for (let position = 0; position < size; ) {
    const length = Math.min(chunkBytes, size - position)
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position)
    if (bytesRead === 0) break
    const bytes = buffer.subarray(0, bytesRead)
    if (position === 0) decode = createDecoder(encodingOf(bytes, encoding))
    position += bytesRead
    const text = decode(bytes)
    if (text !== '') yield text
  }
  const rest = decode()
  if (rest !== '') yield rest
}

/**
 * The encoding by the mark at the beginning, or the one given. Throws SourceError where the two cannot both be right, and for
 * text of two bytes a character whose bytes stand the other way round: it would read as letters of no table, and as no records.
 */
function encodingOf(bytes: Buffer, given: FileEncoding): FileEncoding {
  const marked = marks.find((mark) => bytes.subarray(0, mark.bytes.length).equals(mark.bytes))
  if (marked) {
    const isUnicode = given === 'utf8' || wide.includes(given)
    if (isUnicode) return marked.encoding
    throw new SourceError(
      `begins with the mark of ${marked.encoding}, but its encoding is ${given}; write encoding: ${marked.encoding}`,
    )
  }
  const seems = unmarked(bytes.subarray(0, 64))
  if (seems !== undefined && seems !== given) {
    throw new SourceError(
      `looks like ${seems}, but its encoding is ${given}; write encoding: ${seems}`,
    )
  }
  return given
}

/** Western text of two bytes a character has a zero in each pair, always on the same side. */
function unmarked(bytes: Buffer): FileEncoding | undefined {
  const pairs = Math.floor(bytes.length / 2)
  if (pairs < 2) return undefined
  let [even, odd] = [0, 0]
  for (let at = 0; at < pairs * 2; at += 1) {
    if (bytes[at] !== 0) continue
    if (at % 2 === 0) even += 1
    else odd += 1
  }
  if (even > pairs / 2 && odd === 0) return 'utf16be'
  return odd > pairs / 2 && even === 0 ? 'utf16le' : undefined
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
