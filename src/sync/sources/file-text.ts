import type { FileHandle } from 'node:fs/promises'
import { SourceError } from '../types.ts'

export type FileEncoding = 'utf8' | 'latin1'

const chunkBytes = 64 * 1024
const utf8Mark = Buffer.from([0xef, 0xbb, 0xbf])

/**
 * The text of a file, in pieces, without a byte order mark. Throws SourceError for bytes that are not in the encoding:
 * replacement characters in names would be sent on as if they were right. `latin1` is read as Windows-1252, which is
 * what programs mean by it (they differ in €, curly quotes and dashes).
 */
export async function* textOf(file: FileHandle, encoding: FileEncoding): AsyncGenerator<string> {
  const decoder = new TextDecoder(encoding === 'utf8' ? 'utf-8' : 'windows-1252', { fatal: true })
  const decode = (bytes?: Buffer): string => {
    try {
      return bytes ? decoder.decode(bytes, { stream: true }) : decoder.decode()
    } catch {
      throw new SourceError(
        'is not UTF-8; of another encoding only csv can be read (csv.encoding: latin1)',
      )
    }
  }
  for (let position = 0; ; ) {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(chunkBytes), 0, chunkBytes, position)
    if (bytesRead === 0) break
    const bytes = buffer.subarray(0, bytesRead)
    if (position === 0 && encoding === 'latin1' && bytes.subarray(0, 3).equals(utf8Mark)) {
      throw new SourceError('begins with the mark of UTF-8, but csv.encoding is latin1')
    }
    position += bytesRead
    const text = decode(bytes)
    if (text !== '') yield text
  }
  const rest = decode()
  if (rest !== '') yield rest
}
