import iconv from 'iconv-lite'
import type { fileEncodings } from '../definition/file-source-schema.ts'
import { SourceError } from '../types.ts'

export type FileEncoding = (typeof fileEncodings)[number]

/** Decodes bytes that come in pieces; without an argument what is left. Throws SourceError for what is not in the encoding. */
export type Decode = (bytes?: Buffer) => string

/** Those of the platform, which know what is wrong. */
const own: Partial<Record<FileEncoding, string>> = {
  utf8: 'utf-8',
  latin1: 'windows-1252',
  utf16le: 'utf-16le',
  utf16be: 'utf-16be',
  'iso8859-15': 'iso-8859-15',
}

/** What stands for bytes that are no character of the encoding. */
const replacement = '\ufffd'

export function createDecoder(encoding: FileEncoding): Decode {
  const refuse = (): never => {
    throw new SourceError(
      encoding === 'utf8'
        ? 'is not UTF-8; of another encoding csv and fixed can be read (encoding: latin1, cp850, …)'
        : `holds bytes that are no character of ${encoding}`,
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
    // No text of a code page of one byte holds it.
    return text.includes(replacement) ? refuse() : text
  }
}
