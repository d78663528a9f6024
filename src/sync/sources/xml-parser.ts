import sax from 'sax'
import { SourceError } from '../types.ts'
import { maxColumns } from './limits.ts'

// Only the five entities of XML; the types of the package do not know of it.
const options: sax.SAXOptions & { strictEntities: boolean } = {
  xmlns: true,
  strictEntities: true,
  position: true,
}

/** What the package knows of an element before it tells of it; its types do not have them. */
type OpenParts = { attribList?: readonly unknown[]; tags?: readonly unknown[] }

/** Deeper than any document of an ERP; what is open is held in memory. */
const maxOpen = 1_000

/**
 * A parser that takes well-formed XML with namespaces only, and no document type, so that no entity can grow. Its `write` and
 * `close` throw SourceError with the line. It is written to in pieces of no more than 64 Ki characters: between them it is
 * seen to that no element has thousands of attributes, each of which the package compares with all before, nor thousands of
 * others around it.
 */
export function createXmlParser(): sax.SAXParser {
  const parser: sax.SAXParser & OpenParts = sax.parser(true, options)
  const write = parser.write.bind(parser)
  parser.write = (piece) => {
    write(piece)
    if ((parser.attribList?.length ?? 0) > maxColumns) {
      throw new SourceError(
        `has an element with more than ${maxColumns} attributes in line ${parser.line + 1}`,
      )
    }
    if ((parser.tags?.length ?? 0) > maxOpen) {
      throw new SourceError(`is nested deeper than ${maxOpen} levels`)
    }
    return parser
  }
  parser.onerror = (error) => {
    const [reason = ''] = error.message.split('\n', 1)
    // Its words quote names of elements at most.
    throw new SourceError(
      `is not well-formed XML in line ${parser.line + 1}: ${reason.slice(0, 120)}`,
    )
  }
  parser.ondoctype = () => {
    throw new SourceError('has a document type declaration, which is not read')
  }
  return parser
}

/** An opened element, as the parser knows it with namespaces. */
export type XmlTag = sax.QualifiedTag
