import type { Reason } from '../../texts/reason.ts'
import { SourceError, type SourceRow } from '../types.ts'
import { maxRecordCharacters } from './record-limits.ts'
import { createXmlParser, type XmlTag } from './xml-parser.ts'
import { parseXmlPath, type XmlElement, type XmlStep, xmlField, xmlValue } from './xml-path.ts'

export type XmlForm = {
  /** Path of the records, such as `/Envelope/Body/Lista/Articulo`. */
  items: string
  /** Path of each field inside a record; without it a record has all its content. */
  fields?: Readonly<Record<string, string>> | undefined
  /** Namespaces of the prefixes in paths; a name without a prefix matches any namespace. */
  namespaces?: Readonly<Record<string, string>> | undefined
}

/** Reads a document in chunks. Each method throws SourceError with the line. */
type XmlReader = {
  /** The records that are complete after this chunk. */
  write(piece: string): SourceRow[]
  /** The document without its records. */
  end(): Record<string, unknown>
}

/** A SOAP server returned a fault. */
export class SoapFaultError extends SourceError {}

const maxDepth = 100
/** Size of an element in characters: an empty element needs memory too. */
const elementCost = 16
/** Limit of the content outside of records: a wrong path must not load the whole document. */
const maxOuterCharacters = maxRecordCharacters
const soapNamespaces = new Set([
  'http://schemas.xmlsoap.org/soap/envelope/',
  'http://www.w3.org/2003/05/soap-envelope',
])

/**
 * Reads the records of an XML document. The document must be well-formed to its end and contain the elements on the path to
 * the records. Another document, such as a SOAP Fault, is a failure and does not mean zero records. Document types are
 * refused, so only the five entities of XML exist.
 */
export function createXmlReader({ items, fields, namespaces = {} }: XmlForm): XmlReader {
  const path = parseXmlPath(items, namespaces)
  const fieldPaths =
    fields &&
    Object.entries(fields).map(([name, one]) => [name, parseXmlPath(one, namespaces)] as const)
  const parser = createXmlParser()
  const open: XmlElement[] = []
  let root: XmlElement | undefined
  /** How many of the open elements match the path to the records. */
  let matched = 0
  let hasParent = false
  let record: { at: number; line: number } | undefined
  let records: SourceRow[] = []
  let read = 0
  let characters = 0
  let outerCharacters = 0

  const refuse = (why: Reason): never => {
    throw new SourceError(why)
  }
  const count = (length: number) => {
    if (record) {
      characters += length
      if (characters > maxRecordCharacters) {
        const data = { most: maxRecordCharacters, record: read + 1, line: record.line }
        refuse({ code: 'XML_RECORD_TOO_LONG', data })
      }
    } else {
      outerCharacters += length
      if (outerCharacters > maxOuterCharacters) {
        refuse({ code: 'XML_TOO_MUCH_OUTSIDE', data: { most: maxOuterCharacters, items } })
      }
    }
  }

  parser.onopentag = (tag) => {
    const { local, uri, attributes } = tag as XmlTag
    if (open.length >= maxDepth) refuse({ code: 'NESTED_TOO_DEEP', data: { most: maxDepth } })
    const element: XmlElement = { local, uri, attributes: [], children: [], text: '' }
    for (const one of Object.values(attributes)) {
      if (one.prefix === 'xmlns' || one.name === 'xmlns') continue
      element.attributes.push({ local: one.local, uri: one.uri, value: one.value })
    }
    if (!record && matched === open.length && matched < path.length) {
      if (matchesStep(element, path[matched])) matched += 1
      if (matched === path.length - 1 && open.length === matched - 1) hasParent = true
    }
    const isRecord = !record && matched === path.length && open.length === path.length - 1
    if (isRecord) {
      record = { at: open.length, line: parser.line + 1 }
      characters = 0
    }
    const outer = open.at(-1)
    if (!outer && root) {
      refuse({ code: 'XML_SECOND_DOCUMENT', data: { line: parser.line + 1 } })
    }
    if (!outer) root = element
    else if (!isRecord) outer.children.push(element)
    open.push(element)
    const attributeCharacters = element.attributes.reduce((sum, one) => sum + one.value.length, 0)
    count(local.length + attributeCharacters + elementCost)
  }
  const addText = (text: string) => {
    count(text.length)
    const inner = open.at(-1)
    if (inner) inner.text += text
  }
  parser.ontext = addText
  parser.oncdata = addText
  parser.onclosetag = () => {
    const element = open.pop()
    if (!element) return
    if (record?.at === open.length) {
      read += 1
      records.push(recordOf(element, fieldPaths, read, record.line))
      record = undefined
    }
    if (matched > open.length) matched = open.length
    if (element.local === 'Fault' && soapNamespaces.has(element.uri)) {
      const said = faultText(element)
      throw new SoapFaultError({ code: 'SOAP_FAULT', data: { said: said || undefined } })
    }
  }

  return {
    write(piece) {
      parser.write(piece)
      const found = records
      records = []
      return found
    },
    end() {
      parser.close()
      if (!root) throw new SourceError({ code: 'EMPTY' })
      if (path.length > 1 ? !hasParent : read === 0) {
        const code = path.length > 1 ? 'XML_NO_PARENT' : 'XML_OTHER_ROOT'
        throw new SourceError({ code, data: { items } })
      }
      return { [root.local]: xmlValue(root) }
    },
  }
}

function matchesStep(element: XmlElement, step: XmlStep | undefined): boolean {
  return (
    step !== undefined &&
    !step.isAttribute &&
    (step.local === '*' || step.local === element.local) &&
    (step.uri === undefined || step.uri === element.uri)
  )
}

function recordOf(
  element: XmlElement,
  fields: readonly (readonly [string, XmlStep[]])[] | undefined,
  number: number,
  line: number,
): SourceRow {
  if (!fields) {
    const value = xmlValue(element)
    if (typeof value === 'object' && value !== null) return value as SourceRow
    // An element without content has no fields.
    return value === '' || value === null ? {} : { '#text': value }
  }
  return Object.fromEntries(
    fields.map(([name, steps]) => {
      const found = xmlField(element, steps)
      if (found !== undefined) return [name, found]
      const data = { field: JSON.stringify(name), record: number, line }
      throw new SourceError({ code: 'XML_FIELD_TWICE', data })
    }),
  )
}

/** The readable text of a fault in SOAP 1.1 and 1.2. */
function faultText(element: XmlElement): string {
  const find = (one: XmlElement, name: string): XmlElement | undefined =>
    one.local === name
      ? one
      : one.children.map((child) => find(child, name)).find((found) => found !== undefined)
  const faultElement = find(element, 'faultstring') ?? find(element, 'Text')
  return (
    faultElement?.text
      .replace(/[\p{C}\s]+/gu, ' ')
      .trim()
      .slice(0, 200) ?? ''
  )
}
