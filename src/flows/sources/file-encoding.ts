import iconv from 'iconv-lite'
import type { fileEncodings } from '../definition/file-source-schema.ts'
import { SourceError } from '../types.ts'

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
