import sax from 'sax'
import { SourceError } from '../types.ts'

// Only the five entities of XML; the types of the package do not know of it.
const options: sax.SAXOptions & { strictEntities: boolean } = {
  xmlns: true,
  strictEntities: true,
  position: true,
}

/**
 * A parser that takes well-formed XML with namespaces only, and no document type, so that no entity can grow. Its `write` and
 * `close` throw SourceError with the line.
 */
export function createXmlParser(): sax.SAXParser {
  const parser = sax.parser(true, options)
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
