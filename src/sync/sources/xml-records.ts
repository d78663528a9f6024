import { SourceError, type SourceRow } from '../types.ts'
import { maxRecordCharacters } from './limits.ts'
import { createXmlParser, type XmlTag } from './xml-parser.ts'
import { parseXmlPath, type XmlElement, type XmlStep, xmlField, xmlValue } from './xml-path.ts'

export type XmlForm = {
  /** Where the records stand, such as `/Envelope/Body/Lista/Articulo`. */
  items: string
  /** Field of the record: its path inside; all that a record has when absent. */
  fields?: Readonly<Record<string, string>> | undefined
  /** Prefixes of paths; a name without one is met in any namespace. */
  namespaces?: Readonly<Record<string, string>> | undefined
}

/** A document that is read piece by piece. Each throws SourceError, with the line. */
export type XmlReader = {
  /** The records that ended in this piece. */
  write(piece: string): SourceRow[]
  /** The document without its records, for what stands beside them. */
  end(): Record<string, unknown>
}

/** What a server of SOAP answers in place of what it was asked for. */
export class SoapFaultError extends SourceError {}

const maxDepth = 100
/** Counted as characters: an element without any takes its room too. */
const elementCost = 16
/** Of all that is no record: a wrong path must not hold the whole of a document in memory. */
const maxOuterCharacters = maxRecordCharacters
const soapNamespaces = new Set([
  'http://schemas.xmlsoap.org/soap/envelope/',
  'http://www.w3.org/2003/05/soap-envelope',
])

/**
 * Reads the records of a document of XML. It has to be well-formed to its end, with the elements that lead to the records:
 * what answers with another document, such as a Fault of SOAP, tells a failure, and not that there are no records. No
 * document type is read, so no entities but the five of XML.
 */
export function createXmlReader({ items, fields, namespaces = {} }: XmlForm): XmlReader {
  const path = parseXmlPath(items, namespaces)
  const fieldPaths =
    fields &&
    Object.entries(fields).map(([name, one]) => [name, parseXmlPath(one, namespaces)] as const)
  const parser = createXmlParser()
  const open: XmlElement[] = []
  let root: XmlElement | undefined
  /** How many of the open elements are the way to a record. */
  let matched = 0
  let hasParent = false
  let record: { at: number; line: number } | undefined
  let records: SourceRow[] = []
  let read = 0
  let characters = 0
  let outerCharacters = 0

  const refuse = (what: string): never => {
    throw new SourceError(what)
  }
  const count = (length: number) => {
    if (record) {
      characters += length
      if (characters > maxRecordCharacters) {
        refuse(
          `has a record longer than ${maxRecordCharacters} characters, record ${read + 1} in line ${record.line}`,
        )
      }
    } else {
      outerCharacters += length
      if (outerCharacters > maxOuterCharacters) {
        refuse(
          `has more than ${maxOuterCharacters} characters that are no record; is items (${items}) right?`,
        )
      }
    }
  }

  parser.onopentag = (tag) => {
    const { local, uri, attributes } = tag as XmlTag
    if (open.length >= maxDepth) refuse(`is nested deeper than ${maxDepth} levels`)
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
    if (!outer && root) refuse(`has a second document behind the first, in line ${parser.line + 1}`)
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
      throw new SoapFaultError(faultText(element))
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
      if (!root) throw new SourceError('is empty')
      if (path.length > 1 ? !hasParent : read === 0) {
        const what = path.length > 1 ? 'the element around it' : 'the root of the document'
        throw new SourceError(`items (${items}) is missing: ${what} is not there`)
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
    // An element without anything inside has no fields either.
    return value === '' || value === null ? {} : { '#text': value }
  }
  return Object.fromEntries(
    fields.map(([name, steps]) => {
      const found = xmlField(element, steps)
      if (found !== undefined) return [name, found]
      throw new SourceError(
        `has the field ${JSON.stringify(name)} more than once in record ${number}, line ${line}; a path that ends in [] takes them all`,
      )
    }),
  )
}

/** SOAP 1.1 and 1.2: what it says for people. */
function faultText(element: XmlElement): string {
  const find = (one: XmlElement, name: string): XmlElement | undefined =>
    one.local === name
      ? one
      : one.children.map((child) => find(child, name)).find((found) => found !== undefined)
  const told = find(element, 'faultstring') ?? find(element, 'Text')
  const words = told?.text.replace(/[\p{C}\s]+/gu, ' ').trim() ?? ''
  return `is a SOAP Fault${words === '' ? '' : `: ${words.slice(0, 200)}`}`
}
