/**
 * The encoding of an XML document by its byte order mark or its declaration. The declaration is ASCII in all encodings except
 * UTF-16. Default: UTF-8 (XML 1.0, appendix F).
 */
export function declaredEncoding(bytes: Uint8Array): string {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le'
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be'
  const start = Buffer.from(bytes.subarray(0, 256)).toString('latin1')
  return (
    /^(?:\xef\xbb\xbf)?<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]{1,40})["']/.exec(start)?.[1] ??
    'utf-8'
  )
}
