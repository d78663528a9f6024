import iconv from 'iconv-lite'
import type { fileEncodings } from '../definition/file-source-schema.ts'
import { SourceError } from '../types.ts'
import type { OpenFile } from './file-store.ts'

export type FileEncoding = (typeof fileEncodings)[number]

/** Decodes one chunk of bytes; without an argument, flushes the rest. Throws SourceError for invalid bytes. */
export type Decode = (bytes?: Buffer) => string

/** Encodings of the platform's TextDecoder, which reports invalid bytes. */
const own: Partial<Record<FileEncoding, string>> = {
  utf8: 'utf-8',
  latin1: 'windows-1252',
  utf16le: 'utf-16le',
  utf16be: 'utf-16be',
  'iso8859-15': 'iso-8859-15',
}

/** The decoder's result for invalid bytes. */
const replacement = '\ufffd'

export function createDecoder(encoding: FileEncoding): Decode {
  const refuse = (): never => {
    throw new SourceError(
      encoding === 'utf8' ? { code: 'NOT_UTF8' } : { code: 'NO_CHARACTERS_OF', data: { encoding } },
    )
  }
  const label = own[encoding]
  if (label !== undefined) {
    const decoder = new TextDecoder(label, { fatal: true })
    return (bytes) => {
      try {
        return bytes ? decoder.decode(bytes, { stream: true }) : decoder.decode()
      } catch {
        return refuse()
      }
    }
  }
  const decoder = iconv.getDecoder(encoding)
  return (bytes) => {
    const text = (bytes ? decoder.write(bytes) : decoder.end()) ?? ''
    // No single-byte code page contains this character.
    return text.includes(replacement) ? refuse() : text
  }
}

/** The text of bytes that are complete; undefined when they are not a text of the encoding. */
export function decodedText(bytes: Buffer, encoding: FileEncoding): string | undefined {
  const decode = createDecoder(encoding)
  try {
    return decode(bytes) + decode()
  } catch (error) {
    if (error instanceof SourceError) return undefined
    throw error
  }
}

/** The parser processes one chunk without a pause. */
const chunkBytes = 16 * 1024
/** Byte order marks. They take precedence over the encoding in the definition. */
const marks: readonly { encoding: FileEncoding; bytes: Buffer }[] = [
  { encoding: 'utf8', bytes: Buffer.from([0xef, 0xbb, 0xbf]) },
  { encoding: 'utf16le', bytes: Buffer.from([0xff, 0xfe]) },
  { encoding: 'utf16be', bytes: Buffer.from([0xfe, 0xff]) },
]
const wide: readonly FileEncoding[] = ['utf16le', 'utf16be']

/**
 * The text of a file in chunks, without a byte order mark. Throws SourceError for invalid bytes: replacement characters would
 * be sent as if they were correct.
 *
 * `latin1` is read as Windows-1252, which programs mean by it (they differ in €, curly quotes and dashes). Only `size` bytes
 * are read, the size when the file was found. Generated files such as `/proc/self/environ` have size 0.
 */
export async function* decodeFile(
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
 * The encoding by the byte order mark, or the given one. Throws SourceError when the two contradict each other, and for UTF-16
 * with the wrong byte order, which would decode to wrong characters and no records.
 */
function encodingOf(bytes: Buffer, given: FileEncoding): FileEncoding {
  const marked = marks.find((mark) => bytes.subarray(0, mark.bytes.length).equals(mark.bytes))
  if (marked) {
    const isUnicode = given === 'utf8' || wide.includes(given)
    if (isUnicode) return marked.encoding
    throw new SourceError({ code: 'OTHER_MARK', data: { found: marked.encoding, given } })
  }
  const seems = unmarked(bytes.subarray(0, 64))
  if (seems !== undefined && seems !== given) {
    throw new SourceError({ code: 'OTHER_ENCODING', data: { found: seems, given } })
  }
  return given
}

/** Western text in UTF-16 has a zero in each pair of bytes, always on the same side. */
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
 * Removes the end-of-file character of DOS programs (Ctrl-Z) and the first lines. Throws SourceError for text after that
 * character.
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
      throw new SourceError({ code: 'TEXT_BEHIND_END' })
    }
    if (hasEnded) continue
    hasEnded = at !== -1
    let kept = carried + (hasEnded ? piece.slice(0, at) : piece)
    // A CRLF may be split between two chunks.
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
