import sax from 'sax'
import { SourceError } from '../types.ts'
import { maxColumns } from './record-limits.ts'

// Accept only the five entities of XML. The package's types lack this option.
const options: sax.SAXOptions & { strictEntities: boolean } = {
  xmlns: true,
  strictEntities: true,
  position: true,
}

/** Parser state of an element that is not complete yet. The package's types lack it. */
type OpenParts = { attribList?: readonly unknown[]; tags?: readonly unknown[] }

/** Deeper than any ERP document. Open elements are in memory. */
const maxOpen = 1_000

/**
 * A parser for well-formed XML with namespaces. It refuses a document type, so that no entity can expand. `write` and `close`
 * throw SourceError with the line.
 *
 * It accepts chunks of at most 64 Ki characters. After each chunk it checks the number of attributes, because the package
 * compares each attribute with all earlier ones, and the nesting depth.
 */
export function createXmlParser(): sax.SAXParser {
  const parser: sax.SAXParser & OpenParts = sax.parser(true, options)
  const write = parser.write.bind(parser)
  parser.write = (piece) => {
    write(piece)
    if ((parser.attribList?.length ?? 0) > maxColumns) {
      const data = { most: maxColumns, line: parser.line + 1 }
      throw new SourceError({ code: 'XML_TOO_MANY_ATTRIBUTES', data })
    }
    if ((parser.tags?.length ?? 0) > maxOpen) {
      throw new SourceError({ code: 'NESTED_TOO_DEEP', data: { most: maxOpen } })
    }
    return parser
  }
  parser.onerror = (error) => {
    const [reason = ''] = error.message.split('\n', 1)
    // The parser's messages quote at most names of elements.
    const data = { line: parser.line + 1, said: reason.slice(0, 120) }
    throw new SourceError({ code: 'XML_MALFORMED', data })
  }
  parser.ondoctype = () => {
    throw new SourceError({ code: 'XML_DOCTYPE' })
  }
  return parser
}

/** An open tag with resolved namespaces. */
export type XmlTag = sax.QualifiedTag

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
